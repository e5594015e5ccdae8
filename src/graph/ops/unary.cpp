// Elementwise functions of one tensor: arithmetic, roots, exponentials, rounding, logic, casts.

#include "graph/op_util.h"

namespace fettle {
namespace {

using namespace ops;

Types bits_type(const Node& node) {
  if (!dtype_of(node, 0).is_int()) return bad_types(node, "the input must be of integers");
  return same_type(node);
}
Types bool_type(const Node& node) { return one_type(kBool, shape_of(node, 0)); }

Expr named(const char* name, const Expr& x) { return math(name, {x}); }

Expr absolute(const Node&, const Expr& x) {
  if (x.dtype().is_float()) return named("abs", x);
  return x.dtype().code == TypeCode::kUInt ? x : max(x, number(0, x) - x);
}
Expr negate(const Node&, const Expr& x) { return x.dtype().is_float() ? x * number(-1, x) : number(0, x) - x; }
Expr sign(const Node&, const Expr& x) {
  const Expr zero = number(0, x);
  const Expr below = x.dtype().code == TypeCode::kUInt ? zero : select(lt(x, zero), number(-1, x), zero);
  return select(gt(x, zero), number(1, x), below);
}
// The rounding functions leave integers alone.
template <Text Name>
Expr rounded(const Node&, const Expr& x) {
  return x.dtype().is_float() ? named(Name.chars, x) : x;
}

Expr reciprocal(const Node&, const Expr& x) { return number(1, x) / x; }
Expr tangent(const Node&, const Expr& x) { return named("sin", x) / named("cos", x); }
Expr sinh_of(const Node&, const Expr& x) { return (named("exp", x) - named("exp", number(0, x) - x)) * number(0.5, x); }
Expr cosh_of(const Node&, const Expr& x) { return (named("exp", x) + named("exp", number(0, x) - x)) * number(0.5, x); }
Expr asinh_of(const Node&, const Expr& x) {
  const Expr a = named("abs", x);
  const Expr y = named("log", a + named("sqrt", a * a + number(1, x)));
  return select(lt(x, number(0, x)), number(0, x) - y, y);
}
Expr acosh_of(const Node&, const Expr& x) { return named("log", x + named("sqrt", x * x - number(1, x))); }
Expr atanh_of(const Node&, const Expr& x) {
  return named("log", (number(1, x) + x) / (number(1, x) - x)) * number(0.5, x);
}

Expr logical_negation(const Node&, const Expr& x) { return logical_not(x); }
Expr bitwise_not(const Node&, const Expr& x) { return binary(BinaryOp::kBitXor, x, int_imm(-1, x.dtype())); }
Expr is_nan(const Node&, const Expr& x) { return call("isnan", {x}, kBool); }
Expr is_inf(const Node& node, const Expr& x) {
  Expr found = bool_imm(false);
  if (node.attrs.get_int("detect_positive", 1)) found = logical_or(found, eq(x, te::highest(x.dtype())));
  if (node.attrs.get_int("detect_negative", 1)) found = logical_or(found, eq(x, te::lowest(x.dtype())));
  return found;
}

Expr convert(const Node& node, const Expr& x) {
  const DType to = output_dtype(node);
  if (to == x.dtype()) return x;
  if (to.is_bool()) return ne(x, number(0, x));
  if (x.dtype().is_bool()) return select(x, constant(1, to), constant(0, to));
  return cast(to, x);
}

Result<DType> data_type(const Node& node, int64_t code) {
  if (const auto dtype = element_type(code)) return *dtype;
  return fail(ErrorCode::E603, "Cast to element type " + std::to_string(code), node.name);
}

Types cast_type(const Node& node) {
  FETTLE_TRY(const DType to, data_type(node, node.attrs.get_int("to", 0)));
  return one_type(to, shape_of(node, 0));
}
Types cast_like_type(const Node& node) { return one_type(dtype_of(node, 1), shape_of(node, 0)); }

std::optional<std::vector<Dim>> negative_content(const Node& node) {
  auto all = content_of(*node.inputs[0]);
  if (all)
    for (Dim& d : *all) d = 0 - d;
  return all;
}
std::optional<std::vector<Dim>> negated_content(const Node& node) {
  auto all = content_of(*node.inputs[0]);
  if (all)
    for (Dim& d : *all) d = 1 - d;
  return all;
}
// Of integers, which rounding leaves alone.
std::optional<std::vector<Dim>> same_content(const Node& node) { return content_of(*node.inputs[0]); }
std::optional<std::vector<Dim>> cast_content(const Node& node) {
  const auto to = data_type(node, node.attrs.get_int("to", 0));
  const bool is_whole = dtype_of(node, 0).is_int() || dtype_of(node, 0).is_bool();
  return to && to->is_int() && to->bits >= 32 && is_whole ? content_of(*node.inputs[0]) : std::nullopt;
}

constexpr OpDef with_content(OpDef op, Content content) {
  op.content = content;
  return op;
}
constexpr OpDef defs[] = {
    unary<absolute>("Abs"),
    with_content(unary<negate>("Neg"), negative_content),
    unary<sign>("Sign"),
    with_content(unary<rounded<"floor">>("Floor"), same_content),
    with_content(unary<rounded<"ceil">>("Ceil"), same_content),
    with_content(unary<rounded<"round">>("Round"), same_content),
    unary<math_of<"sqrt">>("Sqrt"),
    unary<reciprocal>("Reciprocal"),
    unary<math_of<"exp">>("Exp"),
    unary<math_of<"log">>("Log"),
    unary<math_of<"sin">>("Sin"),
    unary<math_of<"cos">>("Cos"),
    unary<tangent>("Tan"),
    unary<sinh_of>("Sinh"),
    unary<cosh_of>("Cosh"),
    unary<math_of<"tanh">>("Tanh"),
    unary<asinh_of>("Asinh"),
    unary<acosh_of>("Acosh"),
    unary<atanh_of>("Atanh"),
    unary<math_of<"erf">>("Erf"),
    with_content(unary<logical_negation>("Not"), negated_content),
    unary<bitwise_not>("BitwiseNot", bits_type),
    unary<is_nan>("IsNaN", bool_type),
    unary<is_inf>("IsInf", bool_type),
    define(kElementwise, "Cast", 1, cast_type, of_element<convert>,
           {.content = cast_content, .work = kConverts, .is_pointwise = true, .is_copy = always}),
    define(kElementwise, "CastLike", 2, cast_like_type, of_element<convert>, {.work = kConverts, .is_copy = always}),
};

}  // namespace

extern constinit const OpFamily unary_ops{"unary", defs};

}  // namespace fettle
