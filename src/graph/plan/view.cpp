#include "graph/plan/view.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <string_view>

#include "graph/op.h"

namespace fettle {
namespace {

/// Strides of the same elements under another shape, as NumPy's reshape does without copying: groups of old and new
/// dimensions with equal products, each of which must lie evenly.
std::optional<std::vector<int64_t>> reshape_strides(const std::vector<int64_t>& from,
                                                    const std::vector<int64_t>& strides,
                                                    const std::vector<int64_t>& to) {
  std::vector<int64_t> old_shape, old_strides;
  for (size_t d = 0; d < from.size(); ++d) {
    if (from[d] == 1) continue;
    old_shape.push_back(from[d]);
    old_strides.push_back(strides[d]);
  }
  std::vector<int64_t> result(to.size(), 0);
  size_t i = 0, j = 0;
  while (i < old_shape.size() && j < to.size()) {
    size_t i_end = i + 1, j_end = j + 1;
    int64_t old_count = old_shape[i], new_count = to[j];
    while (old_count != new_count) {
      if (new_count < old_count) {
        if (j_end == to.size()) return {};
        new_count *= to[j_end++];
      } else {
        if (i_end == old_shape.size()) return {};
        old_count *= old_shape[i_end++];
      }
    }
    for (size_t d = i; d + 1 < i_end; ++d)
      if (old_strides[d] != old_shape[d + 1] * old_strides[d + 1]) return {};
    int64_t stride = old_strides[i_end - 1];
    for (size_t d = j_end; d-- > j;) {
      result[d] = stride;
      stride *= to[d];
    }
    i = i_end;
    j = j_end;
  }
  if (i != old_shape.size()) return {};
  for (; j < to.size(); ++j)
    if (to[j] != 1) return {};
  return result;
}

std::vector<int64_t> permutation(const Node& node) {
  std::vector<int64_t> reversed(static_cast<size_t>(node.input(0)->rank()));
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  return node.attrs.get_ints("perm", reversed);
}

/// Attributes of Slice, one entry a dimension of the input; steps must be positive.
struct SliceBounds {
  std::vector<int64_t> starts, steps;
};
std::optional<SliceBounds> slice_bounds(const Node& node) {
  const std::vector<int64_t> shape = node.input(0)->extents();
  SliceBounds bounds{std::vector<int64_t>(shape.size(), 0), std::vector<int64_t>(shape.size(), 1)};
  const std::vector<int64_t> starts = node.attrs.get_ints("starts");
  std::vector<int64_t> axes = node.attrs.get_ints("axes");
  const std::vector<int64_t> steps = node.attrs.get_ints("steps");
  if (starts.empty() || !node.attrs.has("starts") || node.inputs.size() != 1) return {};
  if (axes.empty())
    for (size_t d = 0; d < starts.size(); ++d) axes.push_back(static_cast<int64_t>(d));
  if (axes.size() != starts.size() || (!steps.empty() && steps.size() != starts.size())) return {};
  for (size_t k = 0; k < axes.size(); ++k) {
    const auto rank = static_cast<int64_t>(shape.size());
    const auto d = static_cast<size_t>(axes[k] < 0 ? axes[k] + rank : axes[k]);
    if (d >= shape.size()) return {};
    const int64_t step = steps.empty() ? 1 : steps[k];
    if (step < 1) return {};
    const int64_t start = starts[k] < 0 ? starts[k] + shape[d] : starts[k];
    bounds.starts[d] = std::clamp<int64_t>(start, 0, shape[d]);
    bounds.steps[d] = step;
  }
  return bounds;
}

}  // namespace

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  return dense_strides(shape, order);
}

std::vector<int64_t> dense_strides(const std::vector<int64_t>& shape, const std::vector<int>& order) {
  std::vector<int64_t> strides(shape.size(), 1);
  int64_t stride = 1;
  for (size_t k = order.size(); k-- > 0;) {
    const auto d = static_cast<size_t>(order[k]);
    strides[d] = stride;
    stride *= shape[d];
  }
  return strides;
}

std::vector<int> memory_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  std::vector<int> order(shape.size());
  std::iota(order.begin(), order.end(), 0);
  const auto key = [&](int d) {
    const auto at = static_cast<size_t>(d);
    return shape[at] == 1 ? INT64_MAX : strides[at];
  };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return key(a) > key(b); });
  return order;
}

bool is_row_major(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  int64_t stride = 1;
  for (size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    if (strides[d] != stride) return false;
    stride *= shape[d];
  }
  return true;
}

bool may_be_view(const Node& node) {
  static constexpr std::array<std::string_view, 8> kNames = {"Identity",  "Reshape",   "Flatten", "Squeeze",
                                                             "Unsqueeze", "Transpose", "Slice",   "Split"};
  return std::find(kNames.begin(), kNames.end(), node.op->name) != kNames.end();
}

std::optional<std::vector<View>> view_outputs(const Node& node, const View& input) {
  const std::string_view op = node.op->name;
  const std::vector<int64_t> shape = node.input(0)->extents();
  const std::vector<int64_t> out_shape = node.output()->extents();
  View view = input;
  if (op == "Transpose") {
    const std::vector<int64_t> perm = permutation(node);
    if (perm.size() != shape.size()) return {};
    for (size_t d = 0; d < perm.size(); ++d) view.strides[d] = input.strides[static_cast<size_t>(perm[d])];
    return {{view}};
  }
  if (op == "Slice") {
    const auto bounds = slice_bounds(node);
    if (!bounds) return {};
    for (size_t d = 0; d < shape.size(); ++d) {
      view.offset_elems += bounds->starts[d] * input.strides[d];
      view.strides[d] = input.strides[d] * bounds->steps[d];
    }
    return {{view}};
  }
  if (op == "Split") {
    const int64_t axis = node.attrs.get_int("axis", 0);
    const auto d = static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis);
    std::vector<View> views;
    for (const Value* output : node.outputs) {
      views.push_back(view);
      view.offset_elems += output->extents()[d] * input.strides[d];
    }
    return views;
  }
  const auto strides = reshape_strides(shape, input.strides, out_shape);
  if (!strides) return {};
  view.strides = *strides;
  return {{view}};
}

std::optional<View> view_input(const Node& node, const View& output) {
  const std::string_view op = node.op->name;
  const std::vector<int64_t> shape = node.input(0)->extents();
  View view = output;
  if (op == "Slice" || op == "Split") return {};
  if (op == "Transpose") {
    const std::vector<int64_t> perm = permutation(node);
    if (perm.size() != shape.size()) return {};
    for (size_t d = 0; d < perm.size(); ++d) view.strides[static_cast<size_t>(perm[d])] = output.strides[d];
    return view;
  }
  const auto strides = reshape_strides(node.output()->extents(), output.strides, shape);
  if (!strides) return {};
  view.strides = *strides;
  return view;
}

bool is_join(const Node& node) { return node.op->name == "Concat" && node.inputs.size() > 1; }

}  // namespace fettle
