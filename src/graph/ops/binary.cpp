// Elementwise functions of several tensors with broadcasting: arithmetic, comparisons, logic, Where.

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

// --- types

Result<Shape> common_shape(const Node& node) {
  Shape shape = shape_of(node, 0);
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    FETTLE_TRY(shape, broadcast(node, shape, shape_of(node, i)));
  }
  return shape;
}

Types broadcast_type(const Node& node, DType dtype) {
  FETTLE_TRY(Shape shape, common_shape(node));
  return one_type(dtype, std::move(shape));
}
Types arithmetic_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  return broadcast_type(node, dtype_of(node, 0));
}
Types comparison_type(const Node& node) {
  FETTLE_TRY_VOID(check_same_dtype(node));
  return broadcast_type(node, kBool);
}
Types logic_type(const Node& node) {
  if (!dtype_of(node, 0).is_bool()) return bad_types(node, "inputs must be bool");
  return comparison_type(node);
}
Types bits_type(const Node& node) {
  if (!dtype_of(node, 0).is_int()) return bad_types(node, "inputs must be integers");
  return arithmetic_type(node);
}
Types pow_type(const Node& node) {  // the exponent may be of another type
  return broadcast_type(node, dtype_of(node, 0));
}
Types where_type(const Node& node) {
  if (!dtype_of(node, 0).is_bool()) return bad_types(node, "the condition must be bool");
  FETTLE_TRY_VOID(check_same_dtype(node, 1));
  return broadcast_type(node, dtype_of(node, 1));
}

// --- tensor expressions

using Element = Expr (*)(const Node& node, const Expr& a, const Expr& b);

// The inputs one after the other: ((a, b), c)
template <Element F>
Expr over_inputs(const Node& node, std::span<const te::Tensor> in, const Indices& i) {
  Expr result = read_broadcast(in[0], i);
  for (size_t k = 1; k < in.size(); ++k) result = F(node, result, read_broadcast(in[k], i));
  return result;
}
template <Element F>
Tensors pairwise(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return over_inputs<F>(node, in, i); }));
}

// An expression that does not ask the node.
template <Expr (*F)(Expr, Expr)>
Expr plain(const Node&, const Expr& a, const Expr& b) {
  return F(a, b);
}
template <BinaryOp Op>
Expr bits(const Node&, const Expr& a, const Expr& b) {
  return binary(Op, a, b);
}

Expr subtract(const Node&, const Expr& a, const Expr& b) { return a - b; }
Expr quotient(const Node&, const Expr& a, const Expr& b) { return divide(a, b); }
Expr modulo(const Node& node, const Expr& a, const Expr& b) {
  if (a.dtype().is_float()) return a - math("trunc", {a / b}) * b;
  return node.attrs.get_int("fmod", 0) ? a - divide(a, b) * b : floormod(a, b);
}

// Whether all exponents are known and keep their values as elements of `type`.
bool known_as(const Node& node, DType type) {
  const Value& exponents = *node.inputs[1];
  if (!exponents.is_constant() || exponents.constant->n_elems() > 4096) return false;
  int digits = type.bits - (type.code == TypeCode::kInt ? 1 : 0);
  if (type.is_float()) digits = type == kF64 ? 53 : type == kF32 ? 24 : type == kF16 ? 11 : 8;
  const double most = std::ldexp(1.0, digits);
  return std::ranges::all_of(to_doubles(*exponents.constant), [&](double n) {
    return n == std::trunc(n) && std::fabs(n) < most && (n >= 0 || type.code != TypeCode::kUInt);
  });
}

// Of integers: products of the base that wrap. In the base's type where the exponents fit there, else in the wider of
// both, whose low bits are the same. The sign is the exponents'.
Expr integer_power(const Node& node, const Expr& a, const Expr& b) {
  const DType base = a.dtype();
  if (b.dtype() == base || known_as(node, base)) return math("pow", {a, cast(base, b)});
  const DType common{b.dtype().code, std::max(base.bits, b.dtype().bits), 1};
  const Expr product = cast(base, math("pow", {cast(common, a), cast(common, b)}));
  if (base.code == TypeCode::kInt || common.code == TypeCode::kUInt) return product;
  // An unsigned base may look like -1 there.
  const Expr inverse = select(eq(a, constant(1, base)), constant(1, base), constant(0, base));
  return select(lt(b, constant(0, b.dtype())), inverse, product);
}

// The result has the base's type. Numbers of two types are taken to the power in the wider one.
Expr power(const Node& node, const Expr& a, const Expr& b) {
  const DType base = a.dtype();
  if (base.is_int() && b.dtype().is_int()) return integer_power(node, a, b);
  if (base.is_float()) {
    if (b.dtype() == base || known_as(node, base)) return math("pow", {a, cast(base, b)});
    const auto width = [](DType t) { return t.is_int() && t.bits >= 32 ? 64 : std::max<int>(t.bits, 32); };
    const DType wide = std::max(width(base), width(b.dtype())) == 64 ? kF64 : kF32;
    return cast(base, math("pow", {cast(wide, a), cast(wide, b)}));
  }
  // Whole exponents are exact. For others, what is within pow's error below an integer is that integer. Neither stands
  // in a selection: what is read only where it is chosen is worked out anew at each of its uses.
  const Expr whole = math("pow", {cast(kI64, a), cast(kI64, b)});
  if (known_as(node, kI64)) return cast(base, whole);
  const Expr y = cast(kF64, b), is_whole = eq(math("trunc", {y}), y);
  const Expr real = math("pow", {cast(kF64, a), y}) * constant(1.0 + std::ldexp(1.0, -45), kF64);
  return cast(base, is_whole) * cast(base, whole) + cast(base, logical_not(is_whole)) * cast(base, real);
}

Expr bit_shift(const Node& node, const Expr& a, const Expr& b) {
  return binary(node.attrs.get_string("direction", "LEFT") == "LEFT" ? BinaryOp::kShl : BinaryOp::kShr, a, b);
}

Tensors mean(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) {
    const Expr sum = over_inputs<plain<operator+ >>(node, in, i);
    return in.size() == 1 ? sum : sum / constant(static_cast<double>(in.size()), sum.dtype());
  }));
}

Tensors where(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) {
    return select(read_broadcast(in[0], i), read_broadcast(in[1], i), read_broadcast(in[2], i));
  }));
}

// --- shape arithmetic

// Of one element each; nothing where it cannot be told for all sizes.
using DimFn = std::optional<Dim> (*)(const Dim&, const Dim&);

template <DimFn F>
std::optional<std::vector<Dim>> content(const Node& node) {
  auto result = content_of(*node.inputs[0]);
  for (size_t k = 1; k < node.inputs.size(); ++k) {
    const auto next = content_of(*node.inputs[k]);
    if (!result || !next || result->empty() || next->empty()) return std::nullopt;
    if (result->size() != next->size() && result->size() != 1 && next->size() != 1) return std::nullopt;
    if (result->size() == 1) result->resize(next->size(), Dim(result->front()));
    for (size_t i = 0; i < result->size(); ++i) {
      const auto element = F((*result)[i], (*next)[next->size() == 1 ? 0 : i]);
      if (!element) return std::nullopt;
      (*result)[i] = *element;
    }
  }
  return result;
}
template <Dim (*F)(const Dim&, const Dim&)>
std::optional<Dim> known(const Dim& a, const Dim& b) {
  return F(a, b);
}
std::optional<Dim> difference(const Dim& a, const Dim& b) { return a - b; }
// Of what is not negative by what is positive: there all ways of rounding are one.
bool divides_plainly(const Dim& a, const Dim& b) { return a.min() >= 0 && b.min() >= 0 && !(b == Dim(0)); }
std::optional<Dim> quotient_of_dims(const Dim& a, const Dim& b) {
  return divides_plainly(a, b) ? std::optional(floordiv(a, b)) : std::nullopt;
}
std::optional<Dim> rest_of_dims(const Dim& a, const Dim& b) {
  return b.min() >= 0 && !(b == Dim(0)) ? std::optional(a - floordiv(a, b) * b) : std::nullopt;
}
std::optional<Dim> rest_of_positive_dims(const Dim& a, const Dim& b) {
  return a.min() >= 0 ? rest_of_dims(a, b) : std::nullopt;
}
std::optional<std::vector<Dim>> modulo_content(const Node& node) {
  return node.attrs.get_int("fmod", 0) ? content<rest_of_positive_dims>(node) : content<rest_of_dims>(node);
}
// Truth is 0 or 1.
std::optional<Dim> are_equal(const Dim& a, const Dim& b) {
  return may_equal(a, b) ? 1 - min(max(a - b, b - a), 1) : Dim(0);
}
template <int Least>
std::optional<Dim> exceeds(const Dim& a, const Dim& b) {  // b - a >= Least
  return min(max(b - a - (Least - 1), 0), 1);
}
template <int Least>
std::optional<Dim> is_exceeded(const Dim& a, const Dim& b) {
  return exceeds<Least>(b, a);
}
std::optional<Dim> differ(const Dim& a, const Dim& b) { return 1 - *are_equal(a, b); }
std::optional<std::vector<Dim>> where_content(const Node& node) {
  const auto conditions = content_of(*node.inputs[0]), yes = content_of(*node.inputs[1]),
             no = content_of(*node.inputs[2]);
  if (!conditions || !yes || !no) return std::nullopt;
  const size_t count = std::max({conditions->size(), yes->size(), no->size()});
  std::vector<Dim> result;
  for (size_t i = 0; i < count; ++i) {
    for (const auto* list : {&*conditions, &*yes, &*no})
      if (list->size() != 1 && list->size() != count) return std::nullopt;
    const auto at = [&](const std::vector<Dim>& list) -> const Dim& { return list[list.size() == 1 ? 0 : i]; };
    const Dim &condition = at(*conditions), &otherwise = at(*no);
    result.push_back(condition * (at(*yes) - otherwise) + otherwise);
  }
  return result;
}

// Of integers, by what may be zero.
bool may_divide_by_zero(const Node& node) {
  if (!dtype_of(node, 0).is_int()) return false;
  const Value& divisor = *node.inputs[1];
  if (!divisor.is_constant()) return true;
  const auto numbers = to_ints(*divisor.constant);
  return std::ranges::find(numbers, 0) != numbers.end();
}
constexpr OpDef partial(OpDef op) {
  op.is_partial = may_divide_by_zero;
  return op;
}

template <Element F>
constexpr OpDef pair(std::string_view name, Infer infer, Content content = nullptr) {
  return define(kBroadcast, name, 2, infer, pairwise<F>, {.content = content, .is_pointwise = true});
}
constexpr OpDef commutative(OpDef op) {
  op.is_commutative = true;
  return op;
}
constexpr OpDef taking_strings(OpDef op) {
  op.takes_strings = always;
  return op;
}
constexpr OpDef many(std::string_view name, Compute compute, Content content = nullptr) {
  return define(kBroadcast, name, {1, kAny}, arithmetic_type, compute,
                {.content = content, .is_pointwise = true, .is_commutative = true, .is_copy = has_one_input});
}

constexpr OpDef binary_defs[] = {
    commutative(pair<plain<operator+ >>("Add", arithmetic_type, content<known<operator+ >>)),
    pair<subtract>("Sub", arithmetic_type, content<difference>),
    commutative(pair<plain<operator*>>("Mul", arithmetic_type, content<known<operator*>>)),
    partial(pair<quotient>("Div", arithmetic_type, content<quotient_of_dims>)),
    partial(pair<modulo>("Mod", arithmetic_type, modulo_content)),
    pair<power>("Pow", pow_type),
    many("Min", pairwise<plain<min>>, content<known<fettle::min>>),
    many("Max", pairwise<plain<max>>, content<known<fettle::max>>),
    many("Sum", pairwise<plain<operator+ >>, content<known<operator+ >>),
    many("Mean", mean),
    taking_strings(commutative(pair<plain<eq>>("Equal", comparison_type, content<are_equal>))),
    pair<plain<lt>>("Less", comparison_type, content<exceeds<1>>),
    pair<plain<le>>("LessOrEqual", comparison_type, content<exceeds<0>>),
    pair<plain<gt>>("Greater", comparison_type, content<is_exceeded<1>>),
    pair<plain<ge>>("GreaterOrEqual", comparison_type, content<is_exceeded<0>>),
    commutative(pair<plain<logical_and>>("And", logic_type, content<known<fettle::min>>)),
    commutative(pair<plain<logical_or>>("Or", logic_type, content<known<fettle::max>>)),
    commutative(pair<plain<ne>>("Xor", logic_type, content<differ>)),
    commutative(pair<bits<BinaryOp::kBitAnd>>("BitwiseAnd", bits_type)),
    commutative(pair<bits<BinaryOp::kBitOr>>("BitwiseOr", bits_type)),
    commutative(pair<bits<BinaryOp::kBitXor>>("BitwiseXor", bits_type)),
    pair<bit_shift>("BitShift", bits_type),
    taking_strings(define(kBroadcast, "Where", 3, where_type, where, {.content = where_content, .is_pointwise = true})),
};

}  // namespace

extern constinit const OpFamily binary_ops{"binary", binary_defs};

}  // namespace fettle
