// Sequences as tensors: `data`, the elements one after the other, and `dims` i64[n, rank], the extents of each
// (docs/structures.md). Where extents are known, all that these operators do is shape arithmetic.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "graph/control.h"
#include "graph/ops/sequence.h"
#include "graph/passes/lowering.h"
#include "graph/strings.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;
using Values = std::vector<Value*>;

struct Sequence {
  Value *data, *dims;

  const Dim& length() const { return dims->shape()[0]; }
  const Dim& columns() const { return dims->shape()[1]; }
  const Dim& total() const { return data->shape()[0]; }
};

Result<Sequence> sequence_of(const Node& node, size_t i = 0) {
  FETTLE_TRY_VOID(check_rank(node, i, 1, 1));
  FETTLE_TRY_VOID(check_rank(node, i + 1, 2, 2));
  if (dtype_of(node, i + 1) != kI64) return bad_types(node, "extents of elements are not i64");
  return Sequence{node.inputs[i], node.inputs[i + 1]};
}

/// The rank of the elements, of which none has a lower one.
Result<int64_t> rank_of_elements(const Node& node, const Sequence& s) {
  if (s.columns().is_number()) return s.columns().value();
  return not_known(node, fmt::format("{}: the rank of the elements is not known: state their shape in the model's type "
                                     "of the sequence, or give --range {}=2..2 where it is 2",
                                     node.op->name, s.columns().to_string()));
}

/// The elements' shapes where they are known, if only as sizes.
std::optional<std::vector<Shape>> known_shapes(const Sequence& s) {
  const auto content = content_of(*s.dims);
  if (!content || !s.length().is_number() || !s.columns().is_number()) return std::nullopt;
  std::vector<Shape> shapes(static_cast<size_t>(s.length().value()));
  const auto columns = static_cast<size_t>(s.columns().value());
  for (size_t i = 0; i < shapes.size(); ++i)
    for (size_t d = 0; d < columns; ++d)
      if (const Dim& dim = (*content)[i * columns + d]; !(dim == Dim(-1))) shapes[i].push_back(dim);
  return shapes;
}

/// Where element `i` of these begins, and after the last, where it ends.
Dim offset_of(const std::vector<Shape>& shapes, int64_t i) {
  Dim offset = 0;
  for (int64_t k = 0; k < i; ++k) offset = offset + element_count(shapes[static_cast<size_t>(k)]);
  return offset;
}

/// What is said of a node that cannot go on.
std::string said(const Node& node, std::string_view reason) {
  return fmt::format("{} \"{}\": {}", node.op->name, node.name, reason);
}

Value* flat(Lowering& g, Value* x) { return g.reshape(x, {element_count(x->shape())}); }
Value* concat(Lowering& g, Values parts, int64_t axis = 0) {
  return parts.size() == 1 ? parts[0] : g("Concat", std::move(parts), {{{"axis", axis}}});
}
Value* length_of(Lowering& g, const Sequence& s) { return g("Gather", {g("Shape", {s.dims}), g.index(0)}); }
Value* widened(Lowering& g, Value* dims, int64_t rank) {
  return dims->shape()[1] == Dim(rank) ? dims : g(kSequenceWiden, {dims}, {{{"rank", rank}}});
}
/// The row of `dims` of this element, of at least this rank.
Value* row_of(Lowering& g, Value* x, int64_t rank) {
  Value* row = g.reshape(g("Shape", {x}), {1, Dim(static_cast<int64_t>(x->shape().size()))});
  return widened(g, row, std::max(rank, static_cast<int64_t>(x->shape().size())));
}
/// Numbers of elements: i64[n].
Value* counts_of(Lowering& g, const Sequence& s) { return g.reduce("ReduceProd", g("Abs", {s.dims}), {1}, false); }
/// Where each element begins, and the last ends: i64[n + 1].
Value* offsets_of(Lowering& g, Value* counts) {
  return concat(g, {g.ints({0}), g("CumSum", {counts}, {{{"axis", int64_t{0}}}})});
}

/// A position that counts from the end where it is negative, in [0, most].
struct Position {
  Dim at;
  Value* value;  // likewise: an i64 scalar
};
Result<Position> position_of(Lowering& g, const Node& node, Value* given, const Sequence& s, const Dim& most) {
  if (!given->dtype().is_int() || !may_equal(element_count(given->shape()), 1))
    return bad_types(node, fmt::format("a position is {}", given->type->to_string()));
  given = g.cast(g.reshape(given, {}), kI64);
  FETTLE_TRY_VOID(g.status());
  const Dim& n = s.length();
  const auto content = content_of(*given);
  std::optional<Dim> at;
  if (content) {
    at = content->front();
    if (at->max() < 0 || (at->min() < 0 && at->typical() < 0)) at = *at + n;
    if (at->max() < 0 || (most - *at).max() < 0)
      return bad_types(
          node, fmt::format("position {} of a sequence of {} elements", content->front().to_string(), n.to_string()));
    if (at->is_number() && (most - *at).min() >= 0) return Position{*at, g.index(at->value())};
  }
  Value* is_negative = g.cast(g("Less", {given, g.index(0)}), kI64);
  Value* value = g("Add", {given, g("Mul", {is_negative, length_of(g, s)})});
  if (!at || at->min() < 0 || (most - *at).min() < 0) {
    Value* last = most == n ? length_of(g, s) : g("Sub", {length_of(g, s), g.index(1)});
    g.require(g("And", {g("GreaterOrEqual", {value, g.index(0)}), g("LessOrEqual", {value, last})}),
              said(node, "the position is outside of the sequence"));
  }
  if (!at) at = g.sizes(value, 0).front();
  return Position{*at, value};
}

/// Where the element at this position begins.
Dim begin_of(Lowering& g, const Sequence& s, const Position& p) {
  if (const auto shapes = known_shapes(s); shapes && p.at.is_number()) return offset_of(*shapes, p.at.value());
  if (p.at == Dim(0)) return 0;
  return g.sizes(g("Gather", {offsets_of(g, counts_of(g, s)), p.value}), 0).front();
}
Dim end_of(Lowering& g, const Sequence& s, const Position& p) {
  if (const auto shapes = known_shapes(s); shapes && p.at.is_number()) return offset_of(*shapes, p.at.value() + 1);
  if (p.at + 1 == s.length()) return s.total();
  return g.sizes(g("Gather", {offsets_of(g, counts_of(g, s)), g("Add", {p.value, g.index(1)})}), 0).front();
}

Value* element(Lowering& g, const Sequence& s, const std::vector<Shape>& shapes, int64_t i) {
  return g.reshape(g.slice(s.data, 0, offset_of(shapes, i), offset_of(shapes, i + 1)), shapes[static_cast<size_t>(i)]);
}

Values construct(Lowering& g, const Values& elements) {
  size_t rank = 0;
  for (const Value* x : elements) rank = std::max(rank, x->shape().size());
  Values data, dims;
  for (Value* x : elements) {
    data.push_back(flat(g, x));
    dims.push_back(row_of(g, x, static_cast<int64_t>(rank)));
  }
  return {concat(g, std::move(data)), concat(g, std::move(dims))};
}

// --- making sequences

Result<Values> sequence_empty(Lowering& g, const Node& node) {
  const int64_t code = node.attrs.get_int("dtype", 1), rank = node.attrs.get_int("rank", 0);
  const auto dtype = element_type(code);
  if (!dtype) return bad_attribute(node, "dtype is not supported");
  FETTLE_TRY(TensorBuilder data, make_tensor(*dtype, std::vector<int64_t>{0}));
  FETTLE_TRY(TensorBuilder dims, make_tensor(kI64, std::vector<int64_t>{0, rank}));
  return Values{g.constant(std::move(data).finish()), g.constant(std::move(dims).finish())};
}

Result<Values> sequence_construct(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  return construct(g, node.inputs);
}

Result<Values> sequence_insert(Lowering& g, const Node& node) {
  FETTLE_TRY(Sequence s, sequence_of(node));
  Value* x = node.inputs[2];
  if (x->dtype() != s.data->dtype())
    return bad_types(node, fmt::format("the elements are of {}, and {} is inserted", s.data->dtype().to_string(),
                                       x->dtype().to_string()));
  FETTLE_TRY(int64_t rank, rank_of_elements(node, s));
  rank = std::max(rank, static_cast<int64_t>(x->shape().size()));
  s.dims = widened(g, s.dims, rank);
  Value *data = flat(g, x), *row = row_of(g, x, rank);
  const Dim n = s.length();
  Position p{n, nullptr};
  if (node.input(3)) {
    FETTLE_TRY(p, position_of(g, node, node.inputs[3], s, n));
  }
  if (p.at == n) return Values{concat(g, {s.data, data}), concat(g, {s.dims, row})};
  if (p.at == Dim(0)) return Values{concat(g, {data, s.data}), concat(g, {row, s.dims})};
  const Dim begin = begin_of(g, s, p);
  Value* all = concat(g, {g.slice(s.data, 0, 0, begin), data, g.slice(s.data, 0, begin, s.total())});
  Value* rows = concat(g, {g.slice(s.dims, 0, 0, p.at), row, g.slice(s.dims, 0, p.at, n)});
  return Values{g.reshape(all, {s.total() + data->shape()[0]}), g.reshape(rows, {n + 1, rank})};
}

Result<Values> sequence_erase(Lowering& g, const Node& node) {
  FETTLE_TRY(const Sequence s, sequence_of(node));
  Value* last = node.input(2) ? node.inputs[2] : g.index(-1);
  FETTLE_TRY(const Position p, position_of(g, node, last, s, s.length() - 1));
  const Dim begin = begin_of(g, s, p), end = end_of(g, s, p), n = s.length();
  Value* all = concat(g, {g.slice(s.data, 0, 0, begin), g.slice(s.data, 0, end, s.total())});
  Value* rows = concat(g, {g.slice(s.dims, 0, 0, p.at), g.slice(s.dims, 0, p.at + 1, n)});
  // Not negative either before a loop that makes the sequence has made it.
  return Values{g.reshape(all, {max(s.total() - (end - begin), 0)}), g.reshape(rows, {max(n - 1, 0), s.columns()})};
}

// --- what a sequence has

Result<Values> sequence_at(Lowering& g, const Node& node) {
  FETTLE_TRY(const Sequence s, sequence_of(node));
  FETTLE_TRY(const Position p, position_of(g, node, node.inputs[2], s, s.length() - 1));
  if (const auto shapes = known_shapes(s); shapes && p.at.is_number())
    return Values{element(g, s, *shapes, p.at.value())};
  FETTLE_TRY_VOID(rank_of_elements(node, s));
  const Shape shape = g.sizes(g("Gather", {s.dims, p.value}), 0);
  const Dim begin = begin_of(g, s, p);
  return Values{g.reshape(g.slice(s.data, 0, begin, begin + element_count(shape)), shape)};
}

Result<Values> sequence_length(Lowering& g, const Node& node) {
  FETTLE_TRY(const Sequence s, sequence_of(node));
  return Values{length_of(g, s)};
}

// --- pieces of one tensor, along one axis

/// A tensor [outer, extent, inner] whose middle axis is cut into pieces, and the pieces' elements one after the other.
struct Pieces {
  Value* lengths;  // i64[n]
  Dim extent;      // their sum
  Dim outer, inner;
};

/// Where the elements of [outer, extent, inner] lie in the pieces: i64[outer, extent, inner].
Value* places_in_pieces(Lowering& g, const Pieces& pieces) {
  const auto numbers = [&](const Dim& n, Shape shape) { return g.reshape(g.iota(n), std::move(shape)); };
  Value* ends = g("CumSum", {pieces.lengths}, {{{"axis", int64_t{0}}}});
  // Which piece a place along the axis is in: as many as end before it.
  Value* along = g.iota(pieces.extent);
  Value* is_behind = g("LessOrEqual", {g.unsqueeze(ends, {0}), g.unsqueeze(along, {1})});
  Value* piece = g.reduce("ReduceSum", g.cast(is_behind, kI64), {1}, false);  // [extent]
  Value* length = g("Gather", {pieces.lengths, piece});
  Value* begin = g("Sub", {g("Gather", {ends, piece}), length});
  // begin * outer * inner + o * length * inner + (along - begin) * inner + i
  Value* first = g("Add", {g("Mul", {begin, g.size(pieces.outer)}), g("Sub", {along, begin})});
  Value* inner = g.size(pieces.inner);
  Value* row = g("Mul", {numbers(pieces.outer, {pieces.outer, 1}), g.unsqueeze(length, {0})});
  Value* place = g("Mul", {g("Add", {row, g.unsqueeze(first, {0})}), inner});  // [outer, extent]
  return g("Add", {g.unsqueeze(place, {2}), numbers(pieces.inner, {1, 1, pieces.inner})});
}

Result<Values> split_to_sequence(Lowering& g, const Node& node) {
  Value *x = node.inputs[0], *split = node.input(1);
  const Shape& shape = x->shape();
  FETTLE_TRY(const int64_t axis, axis_of(node, 0));
  const Dim extent = shape[static_cast<size_t>(axis)];
  const bool keeps = split || node.attrs.get_int("keepdims", 1) != 0;
  // The pieces' sizes: a list, or one size for all but the last.
  constexpr size_t kMostPieces = 256;
  constexpr int64_t kMostLatePieces = 16;  // whose sizes data tell: where one begins is a sum of those before it
  std::optional<std::vector<Dim>> sizes;
  Dim size = 1;
  if (split && split->rank() == 1) {
    sizes = content_of(*split);
    if (!sizes && split->is_static() && split->extents()[0] <= kMostLatePieces) sizes = g.sizes(split, 0);
  } else {
    if (split) size = g.sizes(g.reshape(split, {}), 0).front();
    if (size.max() < 1) return bad_attribute(node, "a piece has no elements");
    note_not_negative(node, size - 1, "a piece's size");
    if (size.is_number() && extent.is_number() && extent.value() / size.value() < int64_t{kMostPieces}) {
      sizes.emplace();
      for (int64_t begin = 0; begin < extent.value(); begin += size.value())
        sizes->emplace_back(std::min(size.value(), extent.value() - begin));
    }
  }
  FETTLE_TRY_VOID(g.status());
  if (sizes && sizes->size() <= kMostPieces && !sizes->empty()) {
    Values elements;
    Dim begin = 0;
    for (const Dim& piece : *sizes) {
      if (piece.max() < 0) return bad_attribute(node, "a piece's size is negative");
      Value* part = g.slice(x, axis, begin, begin + piece);
      elements.push_back(g.reshape(part, keeps ? with_replaced(shape, axis, piece) : without(shape, axis)));
      begin = begin + piece;
    }
    if (!may_equal(begin, extent))
      return bad_types(node, fmt::format("pieces of {} together, of {}", begin.to_string(), extent.to_string()));
    note_equal(node, begin, extent, "the pieces' sizes and the extent");
    return construct(g, elements);
  }
  Value* lengths = nullptr;
  if (split && split->rank() == 1) {
    lengths = g.cast(split, kI64);
    const Dim sum = g.sizes(g.reduce("ReduceSum", lengths, {0}, false)).front();
    g.require_all(g("GreaterOrEqual", {lengths, g.index(0)}), said(node, "a piece's size is negative"));
    note_equal(node, sum, extent, "the pieces' sizes and the extent");
  } else {
    Value* begins = g("Mul", {g.iota(ceildiv(extent, max(size, 1))), g.size(size)});
    lengths = g("Min", {g.size(size), g("Sub", {g.size(extent), begins})});
  }
  const Dim n = lengths->shape()[0];
  const Dim outer = element_count(Shape(shape.begin(), shape.begin() + axis));
  const Dim inner = element_count(Shape(shape.begin() + axis + 1, shape.end()));
  Value* data = flat(g, x);
  if (!(outer == Dim(1))) {
    Value* places = flat(g, places_in_pieces(g, {lengths, extent, outer, inner}));
    data = g("ScatterElements", {data, places, data}, {{{"axis", int64_t{0}}}});
  }
  Values columns;
  for (int64_t d = 0; d < std::ssize(shape); ++d) {
    if (d == axis && !keeps) continue;
    Value* one =
        d == axis ? lengths : g("Expand", {g.size(shape[static_cast<size_t>(d)])}, {{{"shape", dims_attr({n})}}});
    columns.push_back(g.unsqueeze(one, {1}));
  }
  if (!columns.empty()) return Values{data, concat(g, std::move(columns), 1)};
  Attrs none{{"shape", dims_attr({n, 0})}, {"value", int_list(std::vector<int64_t>{0})}};
  return Values{data, g("ConstantOfShape", {}, std::move(none))};
}

Result<Values> concat_from_sequence(Lowering& g, const Node& node) {
  FETTLE_TRY(const Sequence s, sequence_of(node));
  if (!node.attrs.has("axis")) return bad_attribute(node, "no axis is given");
  const bool is_new = node.attrs.get_int("new_axis", 0) != 0;
  const Dim n = s.length();
  if (n == Dim(0)) return bad_types(node, "the sequence has no elements");
  if (n.min() < 1)
    g.require(g("GreaterOrEqual", {length_of(g, s), g.index(1)}), said(node, "the sequence has no elements"));
  FETTLE_TRY(const int64_t rank, rank_of_elements(node, s));
  FETTLE_TRY(const int64_t axis, axis_of(node, 0, rank + (is_new ? 1 : 0)));
  if (const auto shapes = known_shapes(s)) {
    Values elements;
    for (int64_t i = 0; i < std::ssize(*shapes); ++i) {
      const Shape& shape = (*shapes)[static_cast<size_t>(i)];
      if (std::ssize(shape) != rank) return bad_types(node, "the elements are of different ranks");
      Value* x = element(g, s, *shapes, i);
      elements.push_back(is_new ? g.reshape(x, with_inserted(shape, axis, 1)) : x);
    }
    return Values{concat(g, std::move(elements), axis)};
  }
  // All are as the first, but along the axis.
  Shape shape = g.sizes(g("Gather", {s.dims, g.index(0)}), 0);
  FETTLE_TRY_VOID(g.status());
  Value* same = g("Equal", {s.dims, g("Gather", {s.dims, g.ints({0})})});
  Values compared;
  if (is_new || rank == 0) {
    compared = {same};
  } else {
    if (axis > 0) compared.push_back(g.slice(same, 1, 0, axis));
    if (axis + 1 < rank) compared.push_back(g.slice(same, 1, axis + 1, rank));
  }
  for (Value* part : compared) g.require_all(part, said(node, "elements have different extents"));
  if (is_new) {
    Value* stacked = g.reshape(s.data, with_inserted(shape, 0, n));
    std::vector<int64_t> perm = first_numbers(shape.size() + 1);
    std::rotate(perm.begin(), perm.begin() + 1, perm.begin() + 1 + axis);
    return Values{axis == 0 ? stacked : g.transpose(stacked, perm)};
  }
  Value* lengths = g.reshape(g.slice(s.dims, 1, axis, axis + 1), {n});
  g.require_all(g("GreaterOrEqual", {lengths, g.index(0)}), said(node, "elements are of different ranks"));
  Dim& extent = shape[static_cast<size_t>(axis)];
  extent = g.sizes(g.reduce("ReduceSum", lengths, {0}, false), 0).front();
  const Dim outer = element_count(Shape(shape.begin(), shape.begin() + axis));
  const Dim inner = element_count(Shape(shape.begin() + axis + 1, shape.end()));
  if (outer == Dim(1)) return Values{g.reshape(s.data, shape)};
  note_equal(node, s.total(), element_count(shape), "the elements and the result");
  Value* places = places_in_pieces(g, {lengths, extent, outer, inner});
  return Values{g.reshape(g("Gather", {s.data, places}), shape)};
}

// --- SequenceMap(sequence | tensor…, captured…) {kinds, dtypes} {body}: the body for each position of the sequences

constexpr int64_t kMostUnrolled = 32;

/// Adds what the body is given at one position, and the body.
Values mapped(passes::NodeBuilder& nodes, const Node& node, const Graph& body, const std::vector<int64_t>& kinds,
              const Values& inputs, Value* at) {
  Values arguments;
  size_t next = 0;
  for (const int64_t kind : kinds) {
    if (kind == 1) {
      arguments.push_back(nodes.value("SequenceAt", "element", {inputs[next], inputs[next + 1], at}));
      next += 2;
    } else {
      arguments.push_back(inputs[next++]);
    }
  }
  arguments.insert(arguments.end(), inputs.begin() + static_cast<int64_t>(next), inputs.end());
  std::vector<Node*> added;
  Values results = inline_body(nodes.graph(), body, arguments, node.provenance, &added);
  for (Node* made : added) nodes.remember(made);
  return results;
}

Result<Values> sequence_map(Lowering& g, const Node& node) {
  const std::vector<int64_t> kinds = node.attrs.get_ints("kinds"), dtypes = node.attrs.get_ints("dtypes");
  const size_t n_mapped = kinds.size() + static_cast<size_t>(std::ranges::count(kinds, 1));
  if (node.bodies.size() != 1 || n_mapped > node.inputs.size() ||
      node.bodies[0]->inputs().size() + n_mapped != node.inputs.size() + kinds.size() ||
      node.bodies[0]->outputs().size() != dtypes.size())
    return bad_attribute(node, "its graph takes or gives another number of values");
  const Graph& body = *node.bodies[0];
  std::optional<Dim> length;
  size_t next = 0;
  for (const int64_t kind : kinds) {
    if (kind == 1) {
      FETTLE_TRY(const Sequence s, sequence_of(node, next));
      if (!length) length = s.length();
      FETTLE_TRY(length, common_dim(node, *length, s.length(), "the sequences' lengths"));
    }
    next += kind == 1 ? 2 : 1;
  }
  if (!length) return bad_types(node, "its first input is no sequence");
  passes::NodeBuilder& nodes = g.nodes();
  Values results;
  if (length->is_number() && length->value() > 0 && length->value() <= kMostUnrolled) {
    std::vector<Values> elements(dtypes.size());
    for (int64_t i = 0; i < length->value(); ++i) {
      const Values made = mapped(nodes, node, body, kinds, node.inputs, nodes.number("at", i));
      for (size_t k = 0; k < elements.size(); ++k) elements[k].push_back(made[k]);
    }
    for (Values& list : elements) {
      const Node* made = nodes.add("SequenceConstruct", "results", std::move(list), {}, 2);
      results.insert(results.end(), made->outputs.begin(), made->outputs.end());
    }
    return results;
  }
  passes::LoopBuilder loop(nodes, g.size(*length));
  std::vector<int64_t> parts;
  Values carried, inputs;
  for (const int64_t dtype : dtypes) {
    const Node* empty = nodes.add("SequenceEmpty", "empty", {}, {{"dtype", dtype}}, 2);
    carried.push_back(loop.carry("data", empty->output(0)));
    carried.push_back(loop.carry("dims", empty->output(1)));
    parts.insert(parts.end(), {kPlainPart, kDimsPart});
  }
  for (Value* input : node.inputs) inputs.push_back(loop.capture(input->name, input));
  const Values made = mapped(loop.body(), node, body, kinds, inputs, loop.iteration());
  std::vector<passes::LoopBuilder::Result> left;
  for (size_t k = 0; k < dtypes.size(); ++k) {
    const Node* longer =
        loop.body().add("SequenceInsert", "longer", {carried[2 * k], carried[2 * k + 1], made[k]}, {}, 2);
    left.push_back({"data", longer->output(0)});
    left.push_back({"dims", longer->output(1)});
  }
  Node* made_loop = loop.finish(node.name + ".loop", left, {});
  made_loop->attrs.set(kPartsKey, std::move(parts));
  made_loop->attrs.erase("keeps_shapes");
  return made_loop->outputs;
}

// --- SequenceWiden(dims) {rank}: extents of -1 behind those that there are

Types widen_type(const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  const Shape& in = shape_of(node, 0);
  const int64_t rank = node.attrs.get_int("rank", 0);
  if (!in[1].is_number()) return not_known(node, "the rank of a sequence's elements is not known");
  return same_dtype(node, {in[0], max(in[1], rank)});
}
Tensors widen(const Node& node, std::span<const te::Tensor> in) {
  const int64_t columns = shape_of(node, 0)[1].value();
  const Expr none = constant(-1, output_dtype(node));
  return one(map_output(node, [&](const Indices& i) {
    if (columns == 0) return none;
    return select(lt(i[1], Expr(columns)), in[0](Indices{i[0], min(i[1], Expr(columns - 1))}), none);
  }));
}
std::optional<std::vector<Dim>> widen_content(const Node& node) {
  const auto all = content_of(*node.inputs[0]);
  const auto from = static_shape(shape_of(node, 0)), to = static_shape(output_shape(node));
  if (!all || !from || !to) return std::nullopt;
  std::vector<Dim> made;
  for (int64_t i = 0; i < (*to)[0]; ++i)
    for (int64_t d = 0; d < (*to)[1]; ++d)
      made.push_back(d < (*from)[1] ? (*all)[static_cast<size_t>(i * (*from)[1] + d)] : Dim(-1));
  return made;
}

// --- OptionalGetElement(present, part…): the parts

Result<Values> optional_get(Lowering& g, const Node& node) {
  g.require(node.inputs[0], said(node, "the optional has no element"));
  return Values(node.inputs.begin() + 1, node.inputs.end());
}

// --- maps: keys and values

Result<Value*> keys_attribute(Lowering& g, const Node& node, std::string_view ints, std::string_view strings) {
  if (node.attrs.has(ints) == node.attrs.has(strings))
    return bad_attribute(node, fmt::format("it must have one of {} and {}", ints, strings));
  if (node.attrs.has(ints)) return g.ints(node.attrs.get_ints(ints));
  const auto* texts = std::get_if<std::vector<std::string>>(node.attrs.find(strings));
  if (!texts) return bad_attribute(node, fmt::format("{} are no strings", strings));
  FETTLE_TRY(ConstantTensor keys, string_tensor(*texts, {std::ssize(*texts)}));
  return g.constant(std::move(keys));
}

// (x: [n, k]): n maps of k keys; a list is one
Result<Values> zip_map(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 1, 2));
  FETTLE_TRY(Value * keys, keys_attribute(g, node, "classlabels_int64s", "classlabels_strings"));
  Value* x = node.inputs[0]->rank() == 1 ? g.unsqueeze(node.inputs[0], {0}) : node.inputs[0];
  FETTLE_TRY_VOID(common_dim(node, x->shape()[1], keys->shape()[0], "columns and class labels"));
  return Values{g("Expand", {keys}, {{{"shape", dims_attr(x->shape())}}}), x};
}

Result<> check_map(const Node& node) {
  for (const size_t i : {0, 1}) FETTLE_TRY_VOID(check_rank(node, i, 1, 1));
  return common_dim(node, shape_of(node, 0)[0], shape_of(node, 1)[0], "keys and values").map([](const Dim&) {});
}

// (keys, values): [1, words of the vocabulary], 0 where a word is no key
Result<Values> dict_vectorizer(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_map(node));
  FETTLE_TRY(Value * words, keys_attribute(g, node, "int64_vocabulary", "string_vocabulary"));
  if (words->dtype() != dtype_of(node, 0))
    return bad_types(node, fmt::format("its keys are of {}", dtype_of(node, 0).to_string()));
  Value *keys = node.inputs[0], *values = node.inputs[1];
  Value* is_word = g("Equal", {g.unsqueeze(keys, {0}), g.unsqueeze(words, {1})});
  Value* taken = g("Where", {is_word, values, g.number(0, values->dtype())});
  return Values{g.unsqueeze(g.reduce("ReduceSum", taken, {1}, false), {0})};
}

// (keys: i64, values): [1, n] in the order of the keys, or [1, max_map], each value at its key
Result<Values> cast_map(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_map(node));
  const std::string to = node.attrs.get_string("cast_to", "TO_FLOAT"),
                    form = node.attrs.get_string("map_form", "DENSE");
  if (to != "TO_FLOAT" && to != "TO_INT64" && to != "TO_STRING")
    return fail(ErrorCode::E603, "CastMap with cast_to " + to, node.name);
  if (form != "DENSE" && form != "SPARSE") return bad_attribute(node, "map_form is " + form);
  Value *keys = node.inputs[0], *values = g.cast(node.inputs[1], to == "TO_FLOAT"   ? kF32
                                                                 : to == "TO_INT64" ? kI64
                                                                                    : kString);
  if (keys->dtype() != kI64) return bad_types(node, fmt::format("its keys are of {}", keys->dtype().to_string()));
  if (form == "DENSE") {
    const std::vector<Value*> sorted =
        g.many("TopK", {keys, g("Shape", {keys})}, {{"axis", int64_t{0}}, {"largest", int64_t{0}}}, 2);
    return Values{g.unsqueeze(g("Gather", {values, sorted[1]}), {0})};
  }
  if (values->dtype().is_string()) return fail(ErrorCode::E603, "a sparse CastMap of strings", node.name);
  const int64_t most = node.attrs.get_int("max_map", 1);
  if (most < 1 || most > kMaxDim) return bad_attribute(node, fmt::format("max_map is {}", most));
  Value* places = g.unsqueeze(g.iota(most), {1});
  Value* taken = g("Where", {g("Equal", {places, g.unsqueeze(keys, {0})}), values, g.number(0, values->dtype())});
  return Values{g.unsqueeze(g.reduce("ReduceSum", taken, {1}, false), {0})};
}

constexpr OpDef sequence_defs[] = {
    composite<sequence_empty>("SequenceEmpty", 0, 2),
    composite<sequence_construct>("SequenceConstruct", {1, kAny}, 2),
    composite<sequence_insert>("SequenceInsert", {3, 4}, 2),
    composite<sequence_erase>("SequenceErase", {2, 3}, 2),
    composite<sequence_at>("SequenceAt", 3),
    composite<sequence_length>("SequenceLength", 2),
    composite<split_to_sequence>("SplitToSequence", {1, 2}, 2),
    composite<concat_from_sequence>("ConcatFromSequence", 2),
    composite<sequence_map>("SequenceMap", {1, kAny}, kAny),
    composite<optional_get>("OptionalGetElement", {1, kAny}, kAny),
    composite<zip_map>("ai.onnx.ml.ZipMap", 1, 2),
    composite<dict_vectorizer>("ai.onnx.ml.DictVectorizer", 2),
    composite<cast_map>("ai.onnx.ml.CastMap", 2),
    define(kInjective, kSequenceWiden, 1, widen_type, widen,
           {.content = widen_content, .work = kMoves, .is_copy = always}),
};

}  // namespace

extern constinit const OpFamily sequence_ops{"sequence", sequence_defs};

}  // namespace fettle
