#include "graph/op_util.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "graph/op_registry.h"
#include "graph/view.h"
#include "ir/compare.h"

namespace fettle::ops {

Types same_type(const Node& node) { return std::vector<TensorType>{type_of(node, 0)}; }

tl::unexpected<Diagnostic> bad_attribute(const Node& node, std::string message) {
  return fail(ErrorCode::E606, fmt::format("{}: {}", node.op->name, message), node.name);
}

tl::unexpected<Diagnostic> bad_types(const Node& node, std::string message) {
  return fail(ErrorCode::E605, fmt::format("{}: {}", node.op->name, message), node.name);
}

tl::unexpected<Diagnostic> not_known(const Node& node, std::string message) {
  return fail(ErrorCode::E604, std::move(message), node.name);
}

Result<> check_type(const Node& node, const Value* input, std::string_view name, const TensorType& wanted) {
  if (!input) return {};
  const TensorType& type = *input->type;
  if (type.dtype != wanted.dtype || !std::ranges::equal(type.shape, wanted.shape, may_equal))
    return bad_types(node, fmt::format("{} is {} instead of {}", name, type.to_string(), wanted.to_string()));
  for (size_t d = 0; d < wanted.shape.size(); ++d)
    note_equal(node, type.shape[d], wanted.shape[d], fmt::format("dim {} of {}", d, name));
  return {};
}

Result<> check_rank(const Node& node, size_t i, int least, int most) {
  if (rank_of(node, i) >= least && rank_of(node, i) <= most) return {};
  return bad_types(node,
                   fmt::format("input {} is {}, of rank {}; it must be of rank {}{}", i, to_string(shape_of(node, i)),
                               rank_of(node, i), least, most > least ? " or more" : ""));
}

Result<> check_same_dtype(const Node& node, size_t first, size_t last) {
  for (size_t i = first + 1; i <= std::min(last, node.inputs.size() - 1); ++i)
    if (dtype_of(node, i) != dtype_of(node, first))
      return bad_types(node, fmt::format("input {} is of {}, input {} of {}", first, dtype_of(node, first).to_string(),
                                         i, dtype_of(node, i).to_string()));
  return {};
}

namespace {
thread_local Graph* checked = nullptr;
// 0 where the body whose rules are noted is known not to run, else 1.
thread_local Dim runs = 1;
}  // namespace

SizeCheckScope::SizeCheckScope(Graph& graph) : before_(std::exchange(checked, &graph)) { graph.take_size_names(); }
Graph* SizeCheckScope::graph() { return checked; }
SizeCheckScope::~SizeCheckScope() { checked = before_; }

Dim fresh_size(const std::string& name, int64_t min, int64_t max, int64_t typical) {
  return Dim::symbol(checked ? checked->unique_size_name(name) : name, min, max, 1, typical);
}

void note_equal(const Node& node, const Dim& a, const Dim& b, std::string_view what) {
  if (!checked || a == b) return;
  checked->add_size_check({(a - b) * runs, true,
                           fmt::format("{} \"{}\": {}: {} and {} must be equal", node.op->name, node.name, what,
                                       a.to_string(), b.to_string())});
}

void note_not_negative(const Node& node, const Dim& a, std::string_view what) {
  if (!checked || a.min() >= 0) return;
  checked->add_size_check(
      {a * runs, false,
       fmt::format("{} \"{}\": {}: {} must not be negative", node.op->name, node.name, what, a.to_string())});
}

BodyCheckScope::BodyCheckScope(const Dim& times) : before_(std::exchange(runs, runs * min(times, 1))) {}
BodyCheckScope::~BodyCheckScope() { runs = before_; }

bool is_signed_by_data(const Dim& dim) {
  bool found = false;
  dim.for_each_symbol([&](const Dim& size) { found = found || size.min() < 0; });
  return found;
}
Dim is_negative(const Dim& dim) { return min(max(0 - dim, 0), 1); }

Result<Dim> common_dim(const Node& node, const Dim& a, const Dim& b, std::string_view what) {
  if (!may_equal(a, b))
    return bad_types(node, fmt::format("{}: {} and {} are not equal", what, a.to_string(), b.to_string()));
  note_equal(node, a, b, what);
  return a.is_number() ? a : b;
}

Result<Shape> broadcast(const Node& node, const Shape& a, const Shape& b) {
  Shape out(std::max(a.size(), b.size()), Dim(1));
  for (size_t d = 0; d < out.size(); ++d) {
    const size_t from_end = out.size() - d;
    const Dim x = from_end <= a.size() ? a[a.size() - from_end] : Dim(1);
    const Dim y = from_end <= b.size() ? b[b.size() - from_end] : Dim(1);
    if (x == y || y == Dim(1))
      out[d] = x;
    else if (x == Dim(1))
      out[d] = y;
    else if (may_equal(x, y)) {  // open sizes are not taken for 1
      note_equal(node, x, y, "broadcast");
      out[d] = y.is_number() ? y : x;
    } else
      return bad_types(node, fmt::format("shapes {} and {} do not broadcast", to_string(a), to_string(b)));
  }
  return out;
}

Result<int64_t> positive_axis(const Node& node, int64_t axis, int64_t rank) {
  if (axis < -rank || axis >= rank)
    return bad_attribute(node, fmt::format("axis {} of a tensor of rank {}", axis, rank));
  return axis < 0 ? axis + rank : axis;
}

Result<int64_t> axis_of(const Node& node, int64_t otherwise, int64_t rank) {
  return positive_axis(node, node.attrs.get_int("axis", otherwise), rank);
}

std::vector<int64_t> first_numbers(size_t n) {
  std::vector<int64_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

Result<std::vector<int64_t>> positive_axes(const Node& node, std::vector<int64_t> axes, int64_t rank) {
  for (int64_t& axis : axes) {
    FETTLE_TRY(axis, positive_axis(node, axis, rank));
  }
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end()) return bad_attribute(node, "an axis is given twice");
  return axes;
}

std::optional<std::vector<Dim>> content_of(const Value& value) {
  if (!value.is_constant()) return value.content;
  constexpr int64_t kMaxContent = 4096;
  const DType dtype = value.constant->dtype;
  if (!(dtype.is_int() || dtype.is_bool()) || value.constant->shape.size() > kMaxContentRank ||
      value.constant->n_elems() > kMaxContent)
    return std::nullopt;
  const auto numbers = to_ints(*value.constant);
  return std::vector<Dim>(numbers.begin(), numbers.end());
}

namespace {
tl::unexpected<Diagnostic> unknown_content(const Node& node, size_t input) {
  return not_known(node, fmt::format("{} needs the content of input \"{}\" when the model is compiled", node.op->name,
                                     node.inputs[input]->name));
}
}  // namespace

Result<std::optional<std::vector<Dim>>> dims_param(const Node& node, size_t input, std::string_view attr) {
  if (const AttrValue* value = node.attrs.find(attr)) {
    if (const auto* list = std::get_if<std::vector<int64_t>>(value))
      return std::vector<Dim>(list->begin(), list->end());
    if (const auto* dims = std::get_if<std::vector<Dim>>(value)) return *dims;
    if (const auto* number = std::get_if<int64_t>(value)) return std::vector<Dim>{*number};
    return bad_attribute(node, fmt::format("attribute {} is no list of integers", attr));
  }
  if (!has_input(node, input)) return std::nullopt;
  auto content = content_of(*node.inputs[input]);
  if (!content) return unknown_content(node, input);
  return content;
}

Result<std::optional<std::vector<int64_t>>> ints_param(const Node& node, size_t input, std::string_view attr) {
  FETTLE_TRY(const auto dims, dims_param(node, input, attr));
  if (!dims) return std::nullopt;
  auto numbers = static_shape(*dims);
  if (!numbers) return unknown_content(node, input);
  return numbers;
}

Result<std::optional<int64_t>> int_param(const Node& node, size_t input, std::string_view attr) {
  FETTLE_TRY(const auto numbers, ints_param(node, input, attr));
  if (!numbers) return std::nullopt;
  if (numbers->size() != 1) return bad_attribute(node, fmt::format("{} must be one number", attr));
  return numbers->front();
}

Result<std::optional<std::vector<double>>> floats_param(const Node& node, size_t input, std::string_view attr) {
  if (const AttrValue* value = node.attrs.find(attr)) {
    if (const auto* list = std::get_if<std::vector<double>>(value)) return *list;
    if (const auto* number = std::get_if<double>(value)) return std::vector<double>{*number};
    return bad_attribute(node, fmt::format("attribute {} is no number", attr));
  }
  if (!has_input(node, input)) return std::nullopt;
  if (!node.inputs[input]->is_constant()) return unknown_content(node, input);
  return to_doubles(*node.inputs[input]->constant);
}

std::string tensor_name(const Node& node) {
  std::string text;
  for (const char c : short_name(*node.op)) {
    const bool upper = c >= 'A' && c <= 'Z';
    const bool after_lower = !text.empty() && text.back() >= 'a' && text.back() <= 'z';
    if (upper && after_lower) text += '_';
    text += upper ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return text;
}

Expr read_broadcast(const te::Tensor& t, const Indices& indices) {
  const size_t rank = t.shape().size();
  FETTLE_CHECK(rank <= indices.size());
  Indices at(rank);
  for (size_t d = 0; d < rank; ++d) at[d] = is_one(t.shape()[d]) ? Expr(0) : indices[indices.size() - rank + d];
  return t(std::move(at));
}

te::Tensor map_output(const Node& node, const std::function<Expr(const Indices&)>& element, size_t output) {
  return te::compute(
      size_exprs(output_shape(node, output)), [&](const std::vector<Var>& i) { return element(to_indices(i)); },
      tensor_name(node));
}

Expr inverse_count(const std::vector<Expr>& extents, DType dtype) {
  int64_t known = 1;
  Expr open;
  for (const Expr& extent : extents) {
    if (const int64_t* number = as_int(extent))
      known *= *number;
    else
      open = open ? open * extent : extent;
  }
  const Expr share = constant(1 / static_cast<double>(known), dtype);
  return open ? share / cast(dtype, open) : share;
}

std::vector<te::ReduceAxis> reduce_axes(const std::vector<Expr>& extents) {
  std::vector<te::ReduceAxis> axes;
  for (const Expr& extent : extents) axes.push_back(te::reduce_axis(extent, fmt::format("k{}", axes.size())));
  return axes;
}

namespace {

te::Tensor reduced(Reduce reduce, std::vector<Expr> shape, const std::vector<te::ReduceAxis>& axes,
                   const std::function<Expr(const Indices& i, const Indices& reduced)>& element, std::string name,
                   std::vector<std::string> axis_names, Expr& identity) {
  return te::compute(
      std::move(shape),
      [&](const std::vector<Var>& i) -> te::Body {
        Expr value = element(to_indices(i), {axes.begin(), axes.end()});
        if (axes.empty()) return value;
        te::Reduction reduction = reduce(std::move(value), axes);
        identity = reduction.identity[0];
        if (std::ranges::any_of(axes, [](const te::ReduceAxis& axis) { return is_zero(axis.extent); })) return identity;
        return reduction;
      },
      std::move(name), std::move(axis_names));
}

}  // namespace

te::Tensor reduce_row(Reduce reduce, std::vector<Expr> shape, const std::vector<te::ReduceAxis>& axes,
                      const std::function<Expr(const Indices& i, const Indices& reduced)>& element, std::string name,
                      std::vector<std::string> axis_names) {
  Expr identity;
  return reduced(reduce, std::move(shape), axes, element, std::move(name), std::move(axis_names), identity);
}

te::Tensor reduce_over(Reduce reduce, std::vector<Expr> shape, const std::vector<te::ReduceAxis>& axes,
                       const std::function<Expr(const Indices& i, const Indices& reduced)>& element, std::string name,
                       std::vector<std::string> axis_names) {
  Expr identity, some;
  // A loop that never runs begins no sum. Where the result has none, either, nothing is missing.
  for (const te::ReduceAxis& axis : axes) {
    const bool is_kept = std::ranges::any_of(shape, [&](const Expr& e) { return structural_equal(e, axis.extent); });
    if (!is_positive_size(axis.extent) && !is_kept) some = logical_and(some, lt(Expr(0), axis.extent));
  }
  const te::Tensor result = reduced(reduce, shape, axes, element, name, std::move(axis_names), identity);
  if (is_true(some) || !identity) return result;
  return te::compute(
      std::move(shape), [&](const std::vector<Var>& i) -> te::Body { return select(some, result(i), identity); },
      name + "_of_some");
}

Expr divide(const Expr& a, const Expr& b) {
  if (!a.dtype().is_int()) return a / b;
  if (a.dtype().code == TypeCode::kUInt) return floordiv(a, b);
  const Expr zero = int_imm(0, a.dtype());
  const Expr inexact = ne(floormod(a, b), zero);
  const Expr signs_differ = ne(lt(a, zero), lt(b, zero));
  return floordiv(a, b) + select(logical_and(inexact, signs_differ), int_imm(1, a.dtype()), zero);
}

Indices reshape_indices(const Shape& from, const Shape& to, const Indices& indices) {
  Indices result(from.size(), Expr(0));
  if (std::find(from.begin(), from.end(), Dim(0)) != from.end()) return result;  // no element is ever asked for
  auto groups = equal_groups(from, to);
  // Of open sizes that cannot be told to be equal: all dims together.
  if (!groups) groups = {{0, from.size(), 0, to.size()}};
  for (const DimGroup& group : *groups) {
    Expr flat = 0;
    for (size_t d = group.to; d < group.to_end; ++d)
      if (!(to[d] == Dim(1))) flat = flat * size_expr(to[d]) + indices[d];
    Dim inner = 1;
    for (size_t d = group.from_end; d-- > group.from;) {
      if (from[d] == Dim(1)) continue;
      const bool outermost =
          std::all_of(from.begin() + static_cast<std::ptrdiff_t>(group.from),
                      from.begin() + static_cast<std::ptrdiff_t>(d), [](const Dim& dim) { return dim == Dim(1); });
      const Expr quotient = floordiv(flat, divisor_expr(inner));
      result[d] = outermost ? quotient : floormod(quotient, divisor_expr(from[d]));
      inner = inner * from[d];
    }
  }
  return result;
}

}  // namespace fettle::ops
