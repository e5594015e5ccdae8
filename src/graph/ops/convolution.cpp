// Convolution: of tensors whose dims lie in any order, in groups of features or of batches, of dilated images, by
// windows that may be turned round. It is a spelling of Conv and ConvTranspose.

#include <fmt/format.h>

#include <algorithm>

#include "graph/ops/padding.h"
#include "graph/ops/products.h"
#include "graph/window.h"

namespace fettle {
namespace {

using namespace ops;
using passes::Lowering;
using Ints = std::vector<int64_t>;

/// What the attributes say.
struct Parameters {
  Ints image_dims, kernel_dims, output_dims;  // where batch and feature, or output and input feature, and space are
  Ints strides, dilations, image_dilations, before, after;
  Ints turned;  // spatial dims whose windows go backwards
  int64_t groups, batch_groups;
  size_t space() const { return strides.size(); }
};

Result<Ints> order_of(const Node& node, const char* name, size_t rank) {
  const Ints order = node.attrs.get_ints(name, first_numbers(rank));
  if (!std::ranges::is_permutation(order, first_numbers(rank)))
    return bad_attribute(node, fmt::format("{} is no permutation of {} dims", name, rank));
  return order;
}

Result<Parameters> read_parameters(const Node& node) {
  FETTLE_TRY_VOID(
      passes::check_attributes(node, {"image_dims", "kernel_dims", "output_dims", "strides", "dilations",
                                      "image_dilations", "pads", "window_reversal", "group", "batch_group", "dtype"}));
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0), rank_of(node, 0)));
  const size_t rank = shape_of(node, 0).size(), n = rank - 2;
  Parameters p;
  FETTLE_TRY(p.image_dims, order_of(node, "image_dims", rank));
  FETTLE_TRY(p.kernel_dims, order_of(node, "kernel_dims", rank));
  FETTLE_TRY(p.output_dims, order_of(node, "output_dims", rank));
  FETTLE_TRY(p.strides, read_list(node, "strides", n, 1, 1));
  FETTLE_TRY(p.dilations, read_list(node, "dilations", n, 1, 1));
  FETTLE_TRY(p.image_dilations, read_list(node, "image_dilations", n, 1, 1));
  FETTLE_TRY(const Ints pads, read_list(node, "pads", 2 * n, 0, -kMaxDim));
  p.before.assign(pads.begin(), pads.begin() + static_cast<int64_t>(n));
  p.after.assign(pads.begin() + static_cast<int64_t>(n), pads.end());
  FETTLE_TRY(const Ints reversal, read_list(node, "window_reversal", n, 0, 0));
  for (size_t d = 0; d < n; ++d)
    if (reversal[d] != 0) p.turned.push_back(static_cast<int64_t>(d));
  p.groups = node.attrs.get_int("group", 1);
  p.batch_groups = node.attrs.get_int("batch_group", 1);
  if (p.groups < 1 || p.batch_groups < 1 || (p.groups > 1 && p.batch_groups > 1))
    return bad_attribute(node, fmt::format("{} groups of features and {} of batches", p.groups, p.batch_groups));
  return p;
}

Value* in_order(Lowering& g, Value* x, const Ints& order) {
  return order == first_numbers(order.size()) ? x : g.transpose(x, order);
}
Ints inverse(const Ints& order) {
  Ints places(order.size());
  for (size_t d = 0; d < order.size(); ++d) places[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
  return places;
}

// [b * n, c, space…] → [n, b * c, space…]: groups of batches become groups of features.
Value* with_batches_as_features(Lowering& g, Value* x, int64_t groups) {
  if (groups == 1) return x;
  const Shape shape = x->shape();
  const Shape space(shape.begin() + 2, shape.end());
  const Dim n = floordiv(shape[0], groups);
  x = g.reshape(x, joined({groups, n, shape[1]}, space));
  Ints order = first_numbers(shape.size() + 1);
  std::swap(order[0], order[1]);
  return g.reshape(g.transpose(x, order), joined({n, shape[1] * groups}, space));
}

// The weights of a ConvTranspose that is the Conv by [o, i / g, k…] of a dilated image: [i, o / g, k…], the windows
// turned round.
Value* transposed_weights(Lowering& g, Value* w, int64_t groups, const Ints& space) {
  const Shape shape = w->shape();
  const Shape kernel(shape.begin() + 2, shape.end());
  const Dim out = floordiv(shape[0], groups);
  w = g.reshape(w, joined({groups, out, shape[1]}, kernel));
  Ints order = first_numbers(shape.size() + 1);
  std::swap(order[1], order[2]);
  w = g.reshape(g.transpose(w, order), joined({shape[1] * groups, out}, kernel));
  return reversed(g, w, space);
}

// Whether ConvTranspose does it: images are dilated, windows take every step, and no more padding than a window has.
bool is_transposed(const Parameters& p, const Shape& image, const Shape& kernel) {
  bool dilates = false;
  for (size_t d = 0; d < p.space(); ++d) {
    const Dim reach = (kernel[d] - 1) * p.dilations[d];
    if (!reach.is_number() || p.strides[d] != 1 || p.before[d] > reach.value()) return false;
    const Dim output = (image[d] - 1) * p.image_dilations[d] + 1 + p.before[d] + p.after[d] - reach;
    if (image[d].max() < 1 || output.max() < 1) return false;
    dilates = dilates || p.image_dilations[d] > 1;
  }
  return dilates;
}

// Convolution(image, kernel) {image_dims, kernel_dims, output_dims, strides, dilations, image_dilations, pads,
// window_reversal, group, batch_group, dtype}
// The dims of the image are, in this order, where its batch, its features and its spatial dims are; those of the
// kernel where output features, input features and spatial dims are; those of the output like the image's.
Result<std::vector<Value*>> convolution(Lowering& g, const Node& node) {
  FETTLE_TRY(const Parameters p, read_parameters(node));
  FETTLE_TRY(const ProductTypes types, product_types(node));
  Value* x = in_order(g, g.cast(node.inputs[0], types.operands), p.image_dims);
  Value* w = in_order(g, g.cast(node.inputs[1], types.operands), p.kernel_dims);
  for (const auto& [value, name] : {std::pair{x->shape()[0], "images"}, std::pair{w->shape()[0], "output features"}}) {
    if (!may_divide(p.batch_groups, value))
      return bad_types(node, fmt::format("{} {} in {} groups of batches", value.to_string(), name, p.batch_groups));
    note_divides(node, p.batch_groups, value, "groups of batches");
  }
  if (x->shape()[1].is_number() && w->shape()[1].is_number() && !(x->shape()[1] == w->shape()[1] * p.groups))
    return bad_types(node, fmt::format("{} features by a kernel of {} in {} groups", x->shape()[1].to_string(),
                                       w->shape()[1].to_string(), p.groups));
  x = with_batches_as_features(g, x, p.batch_groups);
  const int64_t groups = p.groups * p.batch_groups;
  const size_t n = p.space();
  Ints space;
  for (size_t d = 0; d < n; ++d) space.push_back(static_cast<int64_t>(d) + 2);
  Ints turned;
  for (const int64_t d : p.turned) turned.push_back(d + 2);
  w = reversed(g, w, turned);
  const Shape kernel(w->shape().begin() + 2, w->shape().end());

  Value* result = nullptr;
  if (is_transposed(p, Shape(x->shape().begin() + 2, x->shape().end()), kernel)) {
    Ints before, after, more;
    for (size_t d = 0; d < n; ++d) {
      note_not_negative(node, x->shape()[d + 2] - 1, "an image that is dilated");
      const int64_t reach = ((kernel[d] - 1) * p.dilations[d]).value();
      before.push_back(reach - p.before[d]);
      after.push_back(std::max<int64_t>(reach - p.after[d], 0));
      more.push_back(std::max<int64_t>(p.after[d] - reach, 0));
    }
    result = g("ConvTranspose", {x, transposed_weights(g, w, groups, space)},
               {{{"strides", p.image_dilations},
                 {"dilations", p.dilations},
                 {"pads", joined(before, after)},
                 {"output_padding", more},
                 {"group", groups}}});
  } else {
    Value* zero = g.number(0, types.operands);
    Shape before(2, 0), after(2, 0);
    Ints pads_before, pads_after;
    for (size_t d = 0; d < n; ++d) {
      x = dilated(g, x, space[d], p.image_dilations[d], zero);
      before.push_back(std::min<int64_t>(p.before[d], 0));
      after.push_back(std::min<int64_t>(p.after[d], 0));
      pads_before.push_back(std::max<int64_t>(p.before[d], 0));
      pads_after.push_back(std::max<int64_t>(p.after[d], 0));
    }
    x = padded(g, x, before, after, zero);  // cuts
    FETTLE_TRY_VOID(g.status());
    Attrs attrs{{"strides", p.strides},
                {"dilations", p.dilations},
                {"pads", joined(pads_before, pads_after)},
                {"group", groups}};
    if (n == 0) {  // windows of one pixel
      x = g.unsqueeze(x, {2});
      w = g.unsqueeze(w, {2});
      attrs = Attrs{{"group", groups}};
    }
    // Where a window is larger than the image, there is none.
    Shape output{x->shape()[0], w->shape()[0]};
    bool is_empty = false;
    for (size_t d = 0; d < n; ++d) {
      const Dim room = x->shape()[d + 2] + pads_before[d] + pads_after[d] - ((kernel[d] - 1) * p.dilations[d] + 1);
      output.push_back(max(floordiv(room, p.strides[d]) + 1, 0));
      is_empty = is_empty || output.back() == Dim(0);
    }
    if (is_empty)
      result = g("Expand", {zero}, {{{"shape", dims_attr(output)}}});
    else
      result = g("Conv", {x, w}, std::move(attrs));
    if (n == 0) result = g("Squeeze", {result}, {{{"axes", Ints{2}}}});
  }
  return std::vector{in_order(g, g.cast(result, types.result), inverse(p.output_dims))};
}

constexpr OpDef convolution_defs[] = {
    passes::composite<convolution>("fettle.Convolution", 2),
};

}  // namespace

extern constinit const OpFamily convolution_ops{"convolution", convolution_defs};

}  // namespace fettle
