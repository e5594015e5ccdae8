// Operators that move elements: Transpose, Concat, Split, Slice, Pad, Expand, Tile, Gather, …

#include <fmt/format.h>

#include <algorithm>

#include "graph/parameter_shapes.h"
#include "graph/passes/data_axes.h"
#include "graph/stride.h"
#include "graph/view.h"

namespace fettle {
namespace {

using namespace ops;

// --- Transpose

Result<std::vector<int64_t>> permutation(const Node& node) {
  const std::vector<int64_t> dims = first_numbers(shape_of(node, 0).size());
  auto perm = node.attrs.get_ints("perm", {dims.rbegin(), dims.rend()});
  if (!std::ranges::is_permutation(perm, dims)) return bad_attribute(node, "perm is no permutation of the dims");
  return perm;
}
Types transpose_type(const Node& node) {
  FETTLE_TRY(const auto perm, permutation(node));
  Shape shape;
  for (const int64_t d : perm) shape.push_back(shape_of(node, 0)[static_cast<size_t>(d)]);
  return same_dtype(node, std::move(shape));
}
Tensors transpose(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto perm, permutation(node));
  return one(map_output(node, [&](const Indices& i) {
    Indices at(i.size());
    for (size_t d = 0; d < i.size(); ++d) at[static_cast<size_t>(perm[d])] = i[d];
    return in[0](at);
  }));
}

std::optional<std::vector<View>> transpose_outputs(const Node& node, const View& input) {
  const auto perm = permutation(node);
  if (!perm) return {};
  View view = input;
  for (size_t d = 0; d < perm->size(); ++d) view.strides[d] = input.strides[static_cast<size_t>((*perm)[d])];
  return {{view}};
}
std::optional<View> transpose_input(const Node& node, const View& output) {
  const auto perm = permutation(node);
  if (!perm) return {};
  View view = output;
  for (size_t d = 0; d < perm->size(); ++d) view.strides[static_cast<size_t>((*perm)[d])] = output.strides[d];
  return view;
}
constexpr ViewRule transpose_view{transpose_outputs, transpose_input};

// --- Concat, Split

Types concat_type(const Node& node) {
  if (!node.attrs.has("axis")) return bad_attribute(node, "no axis is given");
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  FETTLE_TRY_VOID(check_same_dtype(node));
  Shape shape = shape_of(node, 0);
  std::vector<Dim> extents{shape[static_cast<size_t>(axis)]};
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const Shape& next = shape_of(node, i);
    FETTLE_TRY_VOID(check_rank(node, i, rank_of(node, 0), rank_of(node, 0)));
    for (size_t d = 0; d < shape.size(); ++d) {
      if (static_cast<int64_t>(d) == axis) {
        extents.push_back(next[d]);
        continue;
      }
      FETTLE_TRY(shape[d], common_dim(node, shape[d], next[d], fmt::format("dim {} of inputs 0 and {}", d, i)));
    }
  }
  shape[static_cast<size_t>(axis)] = sum(extents);
  return same_dtype(node, std::move(shape));
}
Tensors concat(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  return one(map_output(node, [&](const Indices& i) {
    const auto a = static_cast<size_t>(axis);
    std::vector<Dim> starts{0};
    for (size_t k = 0; k < in.size(); ++k) starts.push_back(starts.back() + shape_of(node, k)[a]);
    Expr value;
    for (size_t k = in.size(); k-- > 0;) {
      if (starts[k] == starts[k + 1]) continue;  // empty
      const Expr part = in[k](with_replaced(i, axis, i[a] - size_expr(starts[k])));
      value = value ? select(lt(i[a], size_expr(starts[k + 1])), part, value) : part;
    }
    return value ? value : constant(0, output_dtype(node));
  }));
}
std::optional<std::vector<Dim>> concat_content(const Node& node) {
  std::vector<Dim> all;
  for (const Value* input : node.inputs) {
    const auto part = content_of(*input);
    if (!part || (input->rank() > 1 && node.attrs.get_int("axis", 0) != 0)) return std::nullopt;
    all.insert(all.end(), part->begin(), part->end());
  }
  return all;
}

Result<std::vector<Dim>> split_sizes(const Node& node, int64_t axis) {
  FETTLE_TRY(const auto given, dims_param(node, 1, "split"));
  const Dim& extent = shape_of(node, 0)[static_cast<size_t>(axis)];
  const auto n = static_cast<int64_t>(node.outputs.size());
  if (given) {
    for (const Dim& d : *given)
      if (d.max() < 0) return bad_attribute(node, "a part's size is negative");
    const Dim whole = sum(*given);
    if (given->size() != node.outputs.size() || !may_equal(whole, extent))
      return bad_attribute(
          node, fmt::format("{} outputs of an extent of {} do not fit the stated sizes", n, extent.to_string()));
    note_equal(node, whole, extent, "the sizes of all parts and the extent");
    return *given;
  }
  // Equal parts; the last is smaller where they do not divide the extent.
  const Dim part = ceildiv(extent, n);
  std::vector<Dim> sizes(static_cast<size_t>(n), part);
  sizes.back() = extent - part * (n - 1);
  if (sizes.back().max() < 0)
    return bad_attribute(node, fmt::format("{} outputs of an extent of {}", n, extent.to_string()));
  return sizes;
}
Types split_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  FETTLE_TRY(const auto sizes, split_sizes(node, axis));
  std::vector<TensorType> types;
  for (const Dim& size : sizes) types.push_back({dtype_of(node, 0), with_replaced(shape_of(node, 0), axis, size)});
  return types;
}
Tensors split(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  const auto a = static_cast<size_t>(axis);
  std::vector<te::Tensor> parts;
  Dim start = 0;
  for (size_t k = 0; k < node.outputs.size(); ++k) {
    parts.push_back(
        map_output(node, [&](const Indices& i) { return in[0](with_replaced(i, axis, i[a] + size_expr(start))); }, k));
    start = start + output_shape(node, k)[a];
  }
  return parts;
}

std::optional<std::vector<View>> split_outputs(const Node& node, const View& input) {
  const auto axis = axis_of(node, 0);
  if (!axis) return {};
  std::vector<View> views;
  View view = input;
  for (const Value* output : node.outputs) {
    views.push_back(view);
    const auto a = static_cast<size_t>(*axis);
    view.offset_elems = view.offset_elems + output->shape()[a] * input.strides[a];
  }
  return views;
}
constexpr ViewRule split_view{split_outputs};

// --- Slice: starts, ends, axes, steps

struct SlicedDim {
  Dim extent = 0, start = 0;
  int64_t step = 1;
};

// An index, which counts from the end where it is negative. Of an open one that is usually positive, the sign must not
// depend on inputs' sizes.
Dim from_front(const Node& node, const Dim& index, const Dim& extent) {
  if (index.max() <= -kMaxDim) return index;  // before everything
  if (index.max() < 0) return index + extent;
  if (is_signed_by_data(index) || index.typical() < 0) return index + extent * is_negative(index);
  note_not_negative(node, index, "an index");
  return index;
}

Result<std::vector<SlicedDim>> sliced(const Node& node) {
  FETTLE_TRY(const auto starts, dims_param(node, 1, "starts"));
  FETTLE_TRY(const auto ends, dims_param(node, 2, "ends"));
  FETTLE_TRY(auto axes, ints_param(node, 3, "axes"));
  FETTLE_TRY(const auto steps, ints_param(node, 4, "steps"));
  if (!starts || !ends || starts->size() != ends->size())
    return bad_attribute(node, "starts and ends differ in length");
  if (!axes) axes = first_numbers(starts->size());
  if (axes->size() != starts->size() || (steps && steps->size() != starts->size()))
    return bad_attribute(node, "axes or steps differ in length from starts");
  std::vector<SlicedDim> dims;
  for (const Dim& d : shape_of(node, 0)) dims.push_back({d});
  for (size_t k = 0; k < axes->size(); ++k) {
    FETTLE_TRY(const int64_t axis, positive_axis(node, (*axes)[k], rank_of(node, 0)));
    SlicedDim& out = dims[static_cast<size_t>(axis)];
    const Dim extent = out.extent;
    out.step = steps ? (*steps)[k] : 1;
    if (out.step == 0) return bad_attribute(node, "a step is zero");
    const Dim start = max(from_front(node, (*starts)[k], extent), 0), end = from_front(node, (*ends)[k], extent);
    if (out.step < 0) {
      out.start = min(start, extent - 1);  // -1: there is none
      out.extent = max(ceildiv(out.start - max(end, -1), -out.step), 0);
    } else {
      // Nothing is read from a start beyond the end.
      out.start = extent.is_number() ? min(start, extent) : start;
      out.extent = max(ceildiv(min(end, extent) - out.start, out.step), 0);
    }
  }
  return dims;
}
Types slice_type(const Node& node) {
  FETTLE_TRY(const auto dims, sliced(node));
  Shape shape;
  for (const SlicedDim& d : dims) shape.push_back(d.extent);
  return same_dtype(node, std::move(shape));
}
Tensors slice(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto dims, sliced(node));
  return one(map_output(node, [&](const Indices& i) {
    Indices at;
    for (size_t d = 0; d < i.size(); ++d) at.push_back(i[d] * Expr(dims[d].step) + size_expr(dims[d].start));
    return in[0](at);
  }));
}
std::optional<std::vector<View>> slice_outputs(const Node& node, const View& input) {
  if (node.inputs.size() != 1) return {};
  const auto dims = sliced(node);
  if (!dims) return {};
  View view = input;
  for (size_t d = 0; d < dims->size(); ++d) {
    // Backwards only through what lies backwards itself: kernels read upwards.
    if ((*dims)[d].step < 1 && !runs_backwards(input.strides[d])) return {};
    view.offset_elems = view.offset_elems + (*dims)[d].start * input.strides[d];
    view.strides[d] = input.strides[d] * (*dims)[d].step;
  }
  return {{view}};
}
// Of one that keeps everything, forwards or backwards.
std::optional<View> slice_input(const Node& node, const View& output) {
  if (node.inputs.size() != 1) return {};
  const auto dims = sliced(node);
  if (!dims) return {};
  View view = output;
  for (size_t d = 0; d < dims->size(); ++d) {
    const auto& [extent, start, step] = (*dims)[d];
    const Dim first = step < 0 ? extent - 1 : Dim(0);
    if ((step != 1 && step != -1) || !(extent == shape_of(node, 0)[d]) || !(start == first)) return {};
    if (step > 0) continue;
    if (output.strides[d].min() < 0) return {};  // it may not be known which way it runs
    view.offset_elems = view.offset_elems + first * output.strides[d];
    view.strides[d] = Dim(0) - output.strides[d];
  }
  return view;
}
constexpr ViewRule slice_view{slice_outputs, slice_input};
std::optional<std::vector<Dim>> slice_content(const Node& node) {
  const auto all = content_of(*node.inputs[0]);
  const auto dims = sliced(node);
  const auto shape = static_shape(shape_of(node, 0));
  if (!all || !dims || !shape) return std::nullopt;
  for (const auto& dim : *dims)
    if (!dim.extent.is_number() || !dim.start.is_number()) return std::nullopt;
  std::vector<int64_t> places{0};  // of the elements, dim by dim
  for (size_t d = 0; d < dims->size(); ++d) {
    const auto& [extent, start, step] = (*dims)[d];
    std::vector<int64_t> next;
    for (const int64_t place : places)
      for (int64_t k = 0; k < extent.value(); ++k) next.push_back(place * (*shape)[d] + start.value() + k * step);
    places = std::move(next);
  }
  std::vector<Dim> part;
  for (const int64_t place : places) part.push_back((*all)[static_cast<size_t>(place)]);
  return part;
}

// --- Pad

struct Padding {
  Shape before, after;
};
Result<Padding> padding(const Node& node) {
  FETTLE_TRY(const auto pads, dims_param(node, 1, "pads"));
  FETTLE_TRY(auto axes, ints_param(node, 3, "axes"));
  const size_t rank = shape_of(node, 0).size();
  if (!axes) axes = first_numbers(rank);
  const size_t n = axes->size();
  if (!pads || pads->size() != 2 * n) return bad_attribute(node, "pads must have two elements a dim");
  Padding p{Shape(rank), Shape(rank)};
  for (size_t k = 0; k < n; ++k) {
    FETTLE_TRY(const int64_t axis, positive_axis(node, (*axes)[k], rank_of(node, 0)));
    p.before[static_cast<size_t>(axis)] = (*pads)[k];
    p.after[static_cast<size_t>(axis)] = (*pads)[n + k];
  }
  return p;
}
Types pad_type(const Node& node) {
  FETTLE_TRY(const Padding p, padding(node));
  const std::string mode = node.attrs.get_string("mode", "constant");
  if (mode != "constant" && mode != "reflect" && mode != "edge" && mode != "wrap")
    return bad_attribute(node, "mode is " + mode);
  FETTLE_TRY_VOID(check_one_number(node, 2));
  Shape shape = shape_of(node, 0);
  for (size_t d = 0; d < shape.size(); ++d) {
    const Dim extent = shape[d];
    const Dim most = max(p.before[d], p.after[d]);
    if (mode != "constant" && most.max() > 0) {
      // What is repeated must be there.
      const Dim least = mode == "reflect" ? most + 1 : Dim(1);
      if (extent.max() < least.min())
        return bad_attribute(
            node, mode == "reflect" ? "reflected padding is as large as the input" : "there is nothing to repeat");
      note_not_negative(node, extent - least, "what is repeated");
    }
    shape[d] = extent + p.before[d] + p.after[d];
    if (shape[d].max() < 0) return bad_attribute(node, "more is cut off than there is");
  }
  return same_dtype(node, std::move(shape));
}
Tensors pad(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const Padding p, padding(node));
  const std::string mode = node.attrs.get_string("mode", "constant");
  const DType dtype = output_dtype(node);
  Expr value = constant(node.attrs.get_float("value", 0), dtype);
  if (!node.attrs.has("value") && has_tensor(in, 2)) value = scalar_of(in[2]);
  return one(map_output(node, [&](const Indices& i) {
    Indices at;
    Expr inside;
    for (size_t d = 0; d < i.size(); ++d) {
      const Expr n = in[0].shape()[d], k = i[d] - size_expr(p.before[d]);
      if (p.before[d] == Dim(0) && p.after[d] == Dim(0)) {
        at.push_back(i[d]);
      } else if (mode == "edge") {
        at.push_back(clamp(k, Expr(0), n - Expr(1)));
      } else if (mode == "wrap") {
        at.push_back(floormod(k, divisor_expr(shape_of(node, 0)[d])));
      } else if (mode == "reflect") {
        const Expr folded = max(k, Expr(0) - k);  // -1 → 1; then n → n - 2
        at.push_back(min(folded, (n - Expr(1)) * Expr(2) - folded));
      } else {
        at.push_back(k);
        if (p.before[d].max() > 0) inside = logical_and(inside, le(Expr(0), k));
        if (p.after[d].max() > 0) inside = logical_and(inside, lt(k, n));
      }
    }
    const Expr element = in[0](at);
    return is_true(inside) ? element : select(call("likely", {inside}, kBool), element, value);
  }));
}

// --- Expand, Tile

// Where data tell an extent, that it fits is looked at as long as the node is there.
bool expand_copies(const Node& node) {
  const auto shape = dims_param(node, 1, "shape");
  return shape && *shape && std::ranges::none_of(**shape, is_signed_by_data);
}

Types expand_type(const Node& node) {
  FETTLE_TRY(auto shape, dims_param(node, 1, "shape"));
  if (!shape) return bad_attribute(node, "no shape is given");
  std::ranges::replace(*shape, Dim(-1), Dim(1));  // the extent that there is, as some exporters write it
  for (size_t d = 0; d < shape->size(); ++d) {
    Dim& dim = (*shape)[d];
    if (!is_signed_by_data(dim)) continue;
    dim = dim + 2 * is_negative(dim);
    // An extent that is not 1 stays, whether the data say so or 1.
    const size_t from_end = shape->size() - d;
    const Dim before =
        from_end <= shape_of(node, 0).size() ? shape_of(node, 0)[shape_of(node, 0).size() - from_end] : 1;
    if (before == Dim(1)) continue;
    note_equal(node, (dim - before) * (dim - 1), 0, "an extent that is there, and the one to expand to");
    dim = before;
  }
  FETTLE_TRY(Shape out, broadcast(node, shape_of(node, 0), *shape));
  return one_type(dtype_of(node, 0), std::move(out));
}
Tensors expand(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return read_broadcast(in[0], i); }));
}

// Of one number, or of as many as before.
std::optional<std::vector<Dim>> expand_content(const Node& node) {
  auto all = content_of(*node.inputs[0]);
  const auto shape = static_shape(output_shape(node));
  if (!all || !shape || shape->size() > 1) return std::nullopt;
  const size_t count = shape->empty() ? 1 : static_cast<size_t>((*shape)[0]);
  if (all->size() != count && all->size() != 1) return std::nullopt;
  return all->size() == count ? *all : std::vector<Dim>(count, all->front());
}

Types tile_type(const Node& node) {
  FETTLE_TRY(const auto repeats, dims_param(node, 1, "repeats"));
  Shape shape = shape_of(node, 0);
  if (!repeats || repeats->size() != shape.size()) return bad_attribute(node, "repeats must have one element a dim");
  for (size_t d = 0; d < shape.size(); ++d) {
    if ((*repeats)[d].max() < 0) return bad_attribute(node, "a repetition is negative");
    note_not_negative(node, (*repeats)[d], "a repetition");
    shape[d] = shape[d] * (*repeats)[d];
  }
  return same_dtype(node, std::move(shape));
}
Tensors tile(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) {
    Indices at;
    for (size_t d = 0; d < i.size(); ++d)
      at.push_back(shape_of(node, 0)[d] == output_shape(node)[d] ? i[d]
                                                                 : floormod(i[d], divisor_expr(shape_of(node, 0)[d])));
    return in[0](at);
  }));
}

// Where as many elements as there were stay where they were: a Slice backwards and a Pad that shifts (one less before,
// one more behind) have the shape of what they read, too.
bool slice_copies(const Node& node) {
  const auto dims = sliced(node);
  return dims && std::ranges::all_of(*dims, [](const SlicedDim& d) { return d.step > 0; });
}
bool pad_copies(const Node& node) {
  const auto p = padding(node);
  return p && std::ranges::all_of(p->before, [](const Dim& n) { return n == Dim(0); });
}

// --- Gather, GatherElements, GatherND: indices may count from the end

// The operators' definitions leave open what an index outside of the data gives: here the first or the last element.
// What is looked for must be there.
void note_places(const Node& node, int64_t axis) {
  const Dim& places = shape_of(node, 0)[static_cast<size_t>(axis)];
  note_not_negative(node, places - min(element_count(shape_of(node, 1)), 1), "places to gather from");
}
bool may_have_no_places(const Node& node) {
  const auto axis = axis_of(node, 0);
  return !axis || shape_of(node, 0)[static_cast<size_t>(*axis)].min() < 1;
}
Types gather_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  if (!dtype_of(node, 1).is_int()) return bad_types(node, "the indices are not integers");
  note_places(node, axis);
  const Shape& data = shape_of(node, 0);
  const Shape before(data.begin(), data.begin() + axis), after(data.begin() + axis + 1, data.end());
  return same_dtype(node, joined(joined(before, shape_of(node, 1)), after));
}
Tensors gather(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  return one(map_output(node, [&](const Indices& i) {
    const auto middle = i.begin() + axis;
    const Expr index = in[1](Indices(middle, middle + in[1].rank()));
    Indices at(i.begin(), middle);
    at.push_back(wrapped(index, in[0].dim(static_cast<int>(axis))));
    at.insert(at.end(), middle + in[1].rank(), i.end());
    return in[0](at);
  }));
}
std::optional<std::vector<Dim>> gather_content(const Node& node) {
  const auto all = content_of(*node.inputs[0]), indices = content_of(*node.inputs[1]);
  const auto shape = static_shape(shape_of(node, 0));
  if (!all || !indices || !shape || shape->empty() || node.attrs.get_int("axis", 0) != 0) return std::nullopt;
  std::vector<Dim> part;
  const int64_t n = shape->front(), row = n > 0 ? std::ssize(*all) / n : 0;
  for (const Dim& index : *indices) {
    if (!index.is_number() || index.value() < -n || index.value() >= n) return std::nullopt;
    const auto begin = all->begin() + (index.value() < 0 ? index.value() + n : index.value()) * row;
    part.insert(part.end(), begin, begin + row);
  }
  return part;
}

Types gather_elements_type(const Node& node) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0), rank_of(node, 0)));
  note_places(node, axis);
  for (size_t d = 0; d < shape_of(node, 0).size(); ++d) {
    if (static_cast<int64_t>(d) == axis) continue;
    note_not_negative(node, shape_of(node, 0)[d] - shape_of(node, 1)[d], fmt::format("dim {} of the indices", d));
  }
  return same_dtype(node, shape_of(node, 1));
}
Tensors gather_elements(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, in[0].rank()));
  return one(map_output(node, [&](const Indices& i) {
    return in[0](with_replaced(i, axis, wrapped(in[1](i), in[0].dim(static_cast<int>(axis)))));
  }));
}

// GatherND(data, indices) {batch_dims}: the last dim of the indices is a place in the data's dims behind the batch's.
struct GatheredDims {
  size_t batch = 0;  // dims that data and indices share
  size_t place = 0;  // dims of the data that an index names
};
Result<GatheredDims> gathered_dims(const Node& node) {
  const Shape& indices = shape_of(node, 1);
  FETTLE_TRY_VOID(check_rank(node, 0, 1));
  FETTLE_TRY_VOID(check_rank(node, 1, 1));
  const int64_t batch = node.attrs.get_int("batch_dims", 0);
  if (batch < 0 || batch >= std::min(rank_of(node, 0), rank_of(node, 1)))
    return bad_attribute(node, fmt::format("{} batch_dims", batch));
  if (!indices.back().is_number())
    return not_known(node,
                     "the last extent of the indices of GatherND must be a number: it says how many dims they name");
  const int64_t place = indices.back().value();
  if (place < 1 || place > rank_of(node, 0) - batch)
    return bad_types(node, fmt::format("indices of {} dims, and the data has {}", place, rank_of(node, 0) - batch));
  return GatheredDims{static_cast<size_t>(batch), static_cast<size_t>(place)};
}
Types gather_nd_type(const Node& node) {
  FETTLE_TRY(const auto dims, gathered_dims(node));
  if (!dtype_of(node, 1).is_int()) return bad_types(node, "the indices are not integers");
  const Shape &data = shape_of(node, 0), &indices = shape_of(node, 1);
  Shape shape(indices.begin(), indices.end() - 1);
  for (size_t d = 0; d < dims.batch; ++d) {
    FETTLE_TRY(shape[d], common_dim(node, data[d], indices[d], fmt::format("batch dim {}", d)));
  }
  shape.insert(shape.end(), data.begin() + static_cast<std::ptrdiff_t>(dims.batch + dims.place), data.end());
  for (size_t d = dims.batch; d < dims.batch + dims.place; ++d)
    note_not_negative(node, data[d] - min(element_count(indices), 1), "places to gather from");
  return same_dtype(node, std::move(shape));
}
bool gather_nd_may_have_no_places(const Node& node) {
  const auto dims = gathered_dims(node);
  if (!dims) return true;
  const auto first = shape_of(node, 0).begin() + static_cast<std::ptrdiff_t>(dims->batch);
  return std::any_of(first, first + static_cast<std::ptrdiff_t>(dims->place), [](const Dim& d) { return d.min() < 1; });
}
Tensors gather_nd(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto dims, gathered_dims(node));
  return one(map_output(node, [&](const Indices& i) {
    const auto after = i.begin() + (in[1].rank() - 1);
    Indices at(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(dims.batch));
    for (size_t k = 0; k < dims.place; ++k) {
      const Expr index = in[1](joined(Indices(i.begin(), after), {Expr(static_cast<int64_t>(k))}));
      at.push_back(wrapped(index, in[0].dim(static_cast<int>(dims.batch + k))));
    }
    at.insert(at.end(), after, i.end());
    return in[0](at);
  }));
}

// --- between channels and space

Result<int64_t> block_size(const Node& node) {
  const int64_t b = node.attrs.get_int("blocksize", 0);
  if (b < 1 || b > 4096) return bad_attribute(node, fmt::format("a blocksize of {}", b));
  FETTLE_TRY_VOID(check_rank(node, 0, 4, 4));
  return b;
}
Types depth_to_space_type(const Node& node) {
  FETTLE_TRY(const int64_t b, block_size(node));
  const Shape& x = shape_of(node, 0);
  if (!may_divide(b * b, x[1])) return bad_types(node, "the blocks do not divide the channels");
  note_divides(node, b * b, x[1], "channels in blocks");
  return same_dtype(node, {x[0], floordiv(x[1], b * b), x[2] * b, x[3] * b});
}
Tensors depth_to_space(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t block, block_size(node));
  const bool columns_first = node.attrs.get_string("mode", "DCR") == "CRD";
  return one(map_output(node, [&](const Indices& i) {
    const Expr b = block, channels = size_expr(output_shape(node)[1]);
    const Expr place = floormod(i[2], b) * b + floormod(i[3], b);
    const Expr c = columns_first ? i[1] * Expr(block * block) + place : place * channels + i[1];
    return in[0](i[0], c, floordiv(i[2], b), floordiv(i[3], b));
  }));
}
Types space_to_depth_type(const Node& node) {
  FETTLE_TRY(const int64_t b, block_size(node));
  const Shape& x = shape_of(node, 0);
  if (!may_divide(b, x[2]) || !may_divide(b, x[3])) return bad_types(node, "the blocks do not divide the extent");
  for (const size_t d : {2, 3}) note_divides(node, b, x[d], "an extent in blocks");
  return same_dtype(node, {x[0], x[1] * (b * b), floordiv(x[2], b), floordiv(x[3], b)});
}
Tensors space_to_depth(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const int64_t block, block_size(node));
  return one(map_output(node, [&](const Indices& i) {
    const Expr b = block, channels = divisor_expr(shape_of(node, 0)[1]);
    const Expr place = floordiv(i[1], channels);
    return in[0](i[0], floormod(i[1], channels), i[2] * b + floordiv(place, b), i[3] * b + floormod(place, b));
  }));
}

// --- along an axis

Types trilu_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  if (has_input(node, 1) && !(element_count(shape_of(node, 1)) == Dim(1)))
    return bad_types(node, "k is not one number");
  return same_type(node);
}
Tensors trilu(const Node& node, std::span<const te::Tensor> in) {
  const Expr given = has_tensor(in, 1) ? scalar_of(in[1]) : Expr(node.attrs.get_int("k", 0));
  const Expr k = clamp(given, Expr(-kMaxDim), Expr(kMaxDim));
  const bool upper = node.attrs.get_int("upper", 1) != 0;
  return one(map_output(node, [&](const Indices& i) {
    const Expr &row = i[i.size() - 2], &column = i.back();
    const Expr kept = upper ? ge(column, row + k) : le(column, row + k);
    return select(kept, in[0](i), constant(0, output_dtype(node)));
  }));
}

Types cumulative_type(const Node& node) {
  FETTLE_TRY(const auto axis, int_param(node, 1, "axis"));
  if (!axis) return bad_attribute(node, "no axis is given");
  FETTLE_TRY_VOID(positive_axis(node, *axis, rank_of(node, 0)));
  return same_type(node);
}
// Step by step along the axis, which a scan has in front.
using Term = std::function<Expr(const Expr& step, const Indices& others)>;

/// [steps, others…]: the sums (or products) of the terms up to each step, one after the other.
te::Tensor sums_in_turn(const Dim& steps, const std::vector<Expr>& others, const Term& term, const std::string& name,
                        Expr (*combine)(Expr, Expr) = operator+) {
  // A scan has a first step, even where there are none.
  const Dim least = max(steps, 1);
  const auto first = [&](const std::vector<Var>& vars) -> te::Body {
    const Expr value = term(Expr(0), to_indices(vars));
    if (least == steps) return value;
    return select(lt(Expr(0), size_expr(steps)), value, constant(0, value.dtype()));
  };
  return te::scan(
      size_expr(least), others, first,
      [&](const std::vector<te::Tensor>& state, const Expr& t, const std::vector<Var>& vars) -> te::Body {
        return combine(state[0](with_inserted(to_indices(vars), 0, t - Expr(1))), term(t, to_indices(vars)));
      },
      name)[0];
}

/// The sums of the terms up to each step. Floats: no accumulator takes more than kBlock terms. Each block is summed by
/// itself, and what the blocks before it come to is added, which is found the same way. Of open lengths, the sums of
/// the last of `levels` have as many terms as there are.
Term running_sums(const Dim& steps, const std::vector<Expr>& others, DType dtype, const Term& term,
                  const std::string& name, int levels = 3) {
  constexpr int64_t kBlock = 64;
  if (steps.max() <= kBlock || !dtype.is_float() || (!steps.is_number() && levels == 1)) {
    const te::Tensor sums = sums_in_turn(steps, others, term, name);
    return [sums](const Expr& step, const Indices& at) { return sums(with_inserted(at, 0, step)); };
  }
  const Dim blocks = ceildiv(steps, kBlock);
  const auto in_block = [&](const Expr& t, const Indices& vars) {
    const Expr step = vars[0] * Expr(kBlock) + t;
    const Indices rest(vars.begin() + 1, vars.end());
    if (steps.divisor() % kBlock == 0) return term(step, rest);
    return select(lt(step, size_expr(steps)), term(step, rest), constant(0, dtype));
  };
  const te::Tensor local = sums_in_turn(kBlock, with_inserted(others, 0, size_expr(blocks)), in_block, name + "_block");
  const auto place_in = [](const Expr& block, const Expr& t, const Indices& at) { return joined({t, block}, at); };
  const auto total = [&](const Expr& block, const Indices& at) { return local(place_in(block, Expr(kBlock - 1), at)); };
  const Term before = running_sums(blocks, others, dtype, total, name + "_before", levels - 1);
  return [=](const Expr& step, const Indices& at) {
    const Expr block = floordiv(step, Expr(kBlock));
    const Expr own = local(place_in(block, floormod(step, Expr(kBlock)), at));
    return own + select(lt(Expr(0), block), before(max(block - Expr(1), Expr(0)), at), constant(0, dtype));
  };
}

template <bool Product>
Tensors cumulative(const Node& node, std::span<const te::Tensor> in) {
  FETTLE_TRY(const auto given, int_param(node, 1, "axis"));
  FETTLE_TRY(const int64_t axis, positive_axis(node, *given, in[0].rank()));
  const bool exclusive = node.attrs.get_int("exclusive", 0) != 0, reverse = node.attrs.get_int("reverse", 0) != 0;
  const Dim& steps = shape_of(node, 0)[static_cast<size_t>(axis)];
  const Expr nothing = constant(Product ? 1 : 0, in[0].dtype());
  if (steps == Dim(0)) return one(map_output(node, [&](const Indices&) { return nothing; }));
  const auto place = [&](const Expr& step) { return reverse ? size_expr(steps) - Expr(1) - step : step; };
  const auto term = [&](const Expr& step, const Indices& vars) {
    const Indices at = with_inserted(vars, axis, place(exclusive ? max(step - Expr(1), Expr(0)) : step));
    return exclusive ? select(lt(Expr(0), step), in[0](at), nothing) : in[0](at);
  };
  const std::vector<Expr> others = without(in[0].shape(), axis);
  Term sums;
  if (Product) {
    const te::Tensor products = sums_in_turn(steps, others, term, tensor_name(node), operator*);
    sums = [products](const Expr& step, const Indices& at) { return products(with_inserted(at, 0, step)); };
  } else {
    sums = running_sums(steps, others, in[0].dtype(), term, tensor_name(node));
  }
  return one(
      map_output(node, [&](const Indices& i) { return sums(place(i[static_cast<size_t>(axis)]), without(i, axis)); }));
}

// --- ReverseSequence: of each batch, the first `lengths[batch]` steps backwards

Types reverse_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, 1, 1));
  const int64_t batch = node.attrs.get_int("batch_axis", 1), time = node.attrs.get_int("time_axis", 0);
  if (batch + time != 1 || batch * time != 0)
    return bad_attribute(node, fmt::format("batch_axis {} and time_axis {} are not 0 and 1", batch, time));
  FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[static_cast<size_t>(batch)], shape_of(node, 1)[0], "batches"));
  return same_type(node);
}
Tensors reverse_sequence(const Node& node, std::span<const te::Tensor> in) {
  const auto batch = static_cast<size_t>(node.attrs.get_int("batch_axis", 1));
  const size_t time = 1 - batch;
  return one(map_output(node, [&](const Indices& i) {
    const Expr length = min(cast(kI64, in[1](i[batch])), in[0].dim(static_cast<int>(time)));
    const Expr t = i[time];
    return in[0](with_replaced(i, static_cast<int64_t>(time), select(lt(t, length), length - Expr(1) - t, t)));
  }));
}

// --- CenterCropPad: what is too large loses on both sides, what is too small gets zeros there; the larger half behind

Result<std::vector<Value*>> center_crop_pad(passes::Lowering& g, const Node& node) {
  FETTLE_TRY(const auto wanted, dims_param(node, 1, "shape"));
  const Shape& shape = shape_of(node, 0);
  const auto axes = node.attrs.get_ints("axes", first_numbers(shape.size()));
  if (!wanted || wanted->size() != axes.size()) return bad_attribute(node, "shape and axes differ in length");
  Shape before, after;
  std::vector<int64_t> places;
  for (size_t k = 0; k < axes.size(); ++k) {
    FETTLE_TRY(const int64_t axis, positive_axis(node, axes[k], std::ssize(shape)));
    const Dim extent = shape[static_cast<size_t>(axis)], more = (*wanted)[k] - extent;
    const Dim padded = floordiv(max(more, 0), 2), cropped = floordiv(max(0 - more, 0), 2);
    places.push_back(axis);
    before.push_back(padded - cropped);
    after.push_back(more - before.back());
  }
  return std::vector{g("Pad", {node.inputs[0]}, {{{"pads", dims_attr(joined(before, after))}, {"axes", places}}})};
}

constexpr ParamInput slice_params[] = {
    {1, "starts", kDims}, {2, "ends", kDims}, {3, "axes", kInts}, {4, "steps", kInts}};
constexpr ParamInput pad_params[] = {{1, "pads", kDims}, {2, "value", kFloat}, {3, "axes", kInts}};
constexpr ParamInput split_params[] = {{1, "split", kDims}};
constexpr ParamInput shape_params[] = {{1, "shape", kDims}};
constexpr ParamInput repeats_params[] = {{1, "repeats", kDims}};
constexpr ParamInput crop_params[] = {{1, "shape", kDims}};
constexpr ParamInput k_params[] = {{1, "k", kInt}};
constexpr ParamInput axis_params[] = {{1, "axis", kInt}};
constexpr OpDef moves(std::string_view name, InputCount inputs, Infer infer, Compute compute, OpDef traits = {}) {
  traits.work = kMoves;
  return define(kInjective, name, inputs, infer, compute, traits);
}
constexpr OpDef indexing_defs[] = {
    moves("Transpose", 1, transpose_type, transpose, {.view = &transpose_view}),
    moves("Concat", {1, kAny}, concat_type, concat,
          {.content = concat_content, .is_concatenation = true, .is_copy = has_one_input}),
    moves("Split", {1, 2}, split_type, split, {.params = split_params, .n_outputs = -1, .view = &split_view}),
    passes::by_data<passes::slice_by_data>(
        moves("Slice", {1, 5}, slice_type, slice,
              {.params = slice_params, .content = slice_content, .view = &slice_view, .is_copy = slice_copies})),
    passes::by_data<passes::pad_by_data>(
        moves("Pad", {1, 4}, pad_type, pad, {.params = pad_params, .is_copy = pad_copies})),
    moves("Expand", {1, 2}, expand_type, expand,
          {.params = shape_params, .content = expand_content, .is_copy = expand_copies}),
    moves("Tile", {1, 2}, tile_type, tile, {.params = repeats_params, .is_copy = always}),
    moves("Gather", 2, gather_type, gather, {.content = gather_content, .is_partial = may_have_no_places}),
    moves("GatherElements", 2, gather_elements_type, gather_elements, {.is_partial = may_have_no_places}),
    moves("GatherND", 2, gather_nd_type, gather_nd, {.is_partial = gather_nd_may_have_no_places}),
    moves("DepthToSpace", 1, depth_to_space_type, depth_to_space, {.maps_pixels = always}),
    moves("SpaceToDepth", 1, space_to_depth_type, space_to_depth),
    moves("Trilu", {1, 2}, trilu_type, trilu, {.params = k_params}),
    moves("ReverseSequence", 2, reverse_type, reverse_sequence),
    passes::composite<center_crop_pad>("CenterCropPad", 2, 1, crop_params),
    passes::by_data<passes::accumulate_by_data>(
        define(kReduction, "CumSum", {1, 2}, cumulative_type, cumulative<false>, {.params = axis_params})),
    passes::by_data<passes::accumulate_by_data>(
        define(kReduction, "CumProd", {1, 2}, cumulative_type, cumulative<true>, {.params = axis_params})),
};

}  // namespace

extern constinit const OpFamily indexing_ops{"indexing", indexing_defs};

}  // namespace fettle
