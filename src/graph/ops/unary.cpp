// Elementwise functions of one tensor: arithmetic, roots, exponentials, rounding, logic, casts.

#include <fmt/format.h>

#include "graph/elementary.h"
#include "graph/op_util.h"
#include "graph/small_types.h"

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
template <Expr (*F)(const Expr&)>
Expr formula(const Node&, const Expr& x) {
  return F(x);
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

// Casts to and from small types. Nothing else rounds or saturates.
Expr convert_small(const Node& node, Expr x, DType to) {
  const DType from = dtype_of(node, 0);
  if (from == to) return x;
  if (from.is_small_float()) x = small_float_value(from, x);
  if (x.dtype().is_bool()) x = select(x, constant(1, kI32), constant(0, kI32));
  if (to.is_small_float()) {
    const std::string mode = node.attrs.get_string("round_mode", "up");
    const PowerRounding power = mode == "nearest" ? PowerRounding::kNearest
                                : mode == "down"  ? PowerRounding::kDown
                                                  : PowerRounding::kUp;
    if (x.dtype().is_int()) x = cast(x.dtype().bits == 64 ? kF64 : kF32, x);
    return small_float_code(to, x, node.attrs.get_int("saturate", 1) != 0, power);
  }
  return is_small(to) ? wrapped_to(to, x) : to.is_bool() ? ne(x, number(0, x)) : cast(to, x);
}

Expr convert(const Node& node, const Expr& x) {
  const DType to = output_dtype(node);
  if (is_small(to) || is_small(dtype_of(node, 0))) return convert_small(node, x, to);
  if (to == x.dtype()) return x;
  if (to.is_bool()) return ne(x, number(0, x));
  if (x.dtype().is_bool()) return select(x, constant(1, to), constant(0, to));
  return cast(to, x);
}

Result<DType> data_type(const Node& node, int64_t code) {
  if (const auto dtype = element_type(code)) return *dtype;
  return fail(ErrorCode::E603, "Cast to element type " + std::to_string(code), node.name);
}

// Strings are read and written by a host function.
bool touches_strings(const Node& node) {
  const bool to_string =
      node.inputs.size() > 1 ? dtype_of(node, 1).is_string() : element_type(node.attrs.get_int("to", 0)) == kString;
  return to_string || dtype_of(node, 0).is_string();
}
constexpr HostRule string_cast_rule{.function = "fettle_host_string_cast", .applies = touches_strings};
Result<> check_string_cast(const Node& node, DType from, DType to) {
  if (!from.is_string() && !to.is_string()) return {};
  for (const DType dtype : {from, to})
    if (is_small(dtype))
      return bad_types(node,
                       fmt::format("strings and {} do not cast into each other; go by f32 or i32", dtype.to_string()));
  return {};
}

Result<> check_rounding(const Node& node) {
  const std::string mode = node.attrs.get_string("round_mode", "up");
  if (mode != "up" && mode != "down" && mode != "nearest") return bad_attribute(node, "round_mode is " + mode);
  return {};
}
Types cast_type(const Node& node) {
  FETTLE_TRY(const DType to, data_type(node, node.attrs.get_int("to", 0)));
  FETTLE_TRY_VOID(check_rounding(node));
  FETTLE_TRY_VOID(check_string_cast(node, dtype_of(node, 0), to));
  return one_type(to, shape_of(node, 0));
}
Types bit_cast_type(const Node& node) {
  FETTLE_TRY(const DType to, data_type(node, node.attrs.get_int("to", 0)));
  const DType from = dtype_of(node, 0);
  const auto width = [](DType dtype) { return dtype.is_bool() ? 8 : int{dtype.bits}; };
  if (width(to) != width(from))
    return bad_attribute(node, "elements of " + from.to_string() + " have not as many bits as " + to.to_string());
  return one_type(to, shape_of(node, 0));
}
Expr bit_cast(const Node& node, const Expr& x) {
  const DType from = dtype_of(node, 0), to = output_dtype(node);
  // A neighbour's halves come as they were computed.
  Expr bits = from.bits == 16 && from.is_float() ? cast(from, x) : x;
  if (bits.dtype().is_bool()) bits = select(bits, constant(1, kU8), constant(0, kU8));
  if (to.is_bool()) return ne(call("bitcast", {bits}, kU8), constant(0, kU8));
  const DType made = program_dtype(to);
  const Expr same = made == bits.dtype() ? bits : call("bitcast", {bits}, made);
  return to.bits < 8 && is_small(to) ? wrapped_to(to.is_int() ? to : kU4, same) : same;
}
Types cast_like_type(const Node& node) {
  FETTLE_TRY_VOID(check_rounding(node));
  FETTLE_TRY_VOID(check_string_cast(node, dtype_of(node, 0), dtype_of(node, 1)));
  return one_type(dtype_of(node, 1), shape_of(node, 0));
}

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
constexpr OpDef unary_defs[] = {
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
    unary<formula<elementary::tangent>>("Tan"),
    unary<formula<elementary::hyperbolic_sine>>("Sinh"),
    unary<formula<elementary::hyperbolic_cosine>>("Cosh"),
    unary<math_of<"tanh">>("Tanh"),
    unary<formula<elementary::arc_sine>>("Asin"),
    unary<formula<elementary::arc_cosine>>("Acos"),
    unary<formula<elementary::arc_tangent>>("Atan"),
    unary<formula<elementary::area_sine>>("Asinh"),
    unary<formula<elementary::area_cosine>>("Acosh"),
    unary<formula<elementary::area_tangent>>("Atanh"),
    unary<math_of<"erf">>("Erf"),
    with_content(unary<logical_negation>("Not"), negated_content),
    unary<bitwise_not>("BitwiseNot", bits_type),
    unary<is_nan>("IsNaN", bool_type),
    unary<is_inf>("IsInf", bool_type),
    define(kElementwise, "Cast", 1, cast_type, of_element<convert>,
           {.content = cast_content,
            .work = kConverts,
            .host = &string_cast_rule,
            .is_pointwise = true,
            .is_copy = always}),
    define(kElementwise, "BitCast", 1, bit_cast_type, of_element<bit_cast>,
           {.work = kConverts, .is_pointwise = true, .is_copy = always}),
    define(kElementwise, "CastLike", 2, cast_like_type, of_element<convert>,
           {.work = kConverts, .host = &string_cast_rule, .is_copy = always}),
};

}  // namespace

extern constinit const OpFamily unary_ops{"unary", unary_defs};

}  // namespace fettle
