// Operators of single elements.

#include "frontend/stablehlo/elementwise.h"

#include <fmt/format.h>

#include "graph/op_util.h"
#include "graph/small_types.h"

namespace fettle::stablehlo {
namespace {

using ops::Text;

// Small types are computed with as wider ones, and converted back.
Value* widened(const Elements& e, Value* x) {
  if (!is_small(x->dtype())) return x;
  return e.cast(x, x->dtype().is_small_float() ? kF32 : x->dtype().code == TypeCode::kInt ? kI8 : kU8);
}

using Unary = Value* (*)(const Elements& e, Value* x);
using Binary = Value* (*)(const Elements& e, Value* a, Value* b);
using ComplexUnary = Complex (*)(const ComplexElements& c, const Complex& x);
using ComplexBinary = Complex (*)(const ComplexElements& c, const Complex& a, const Complex& b);

template <Unary F, ComplexUnary G = nullptr>
Result<Tensors> unary(OpImport& o) {
  const Elements e(o);
  if (o.in.size() != 1) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  if (o.is_complex(0)) {
    if constexpr (G != nullptr) {
      const Complex made = G(ComplexElements(e), {o.in[0].re, o.in[0].im});
      return Tensors{{made.re, made.im}};
    }
    return o.refuse("of complex numbers");
  }
  FETTLE_TRY(Value * x, o.real(0));
  return Tensors{{e.cast(F(e, widened(e, x)), o.result_dtype())}};
}
template <Binary F, ComplexBinary G = nullptr>
Result<Tensors> binary(OpImport& o) {
  const Elements e(o);
  if (o.in.size() != 2) return o.mistaken(fmt::format("it has {} operands", o.in.size()));
  if (o.is_complex(0) && o.is_complex(1)) {
    if constexpr (G != nullptr) {
      const Complex made = G(ComplexElements(e), {o.in[0].re, o.in[0].im}, {o.in[1].re, o.in[1].im});
      return Tensors{{made.re, made.im}};
    }
    return o.refuse("of complex numbers");
  }
  FETTLE_TRY(Value * a, o.real(0));
  FETTLE_TRY(Value * b, o.real(1));
  return Tensors{{e.cast(F(e, widened(e, a), widened(e, b)), o.result_dtype())}};
}

template <Text Name>
Value* plain(const Elements& e, Value* x) {
  return e.op(Name.chars, {x});
}
template <Text Name>
Value* pair(const Elements& e, Value* a, Value* b) {
  return e.op(Name.chars, {a, b});
}
// One operation of numbers, another of truths.
template <Text Name, Text OfTruths>
Value* either_pair(const Elements& e, Value* a, Value* b) {
  return e.op(a->dtype().is_bool() ? OfTruths.chars : Name.chars, {a, b});
}
template <Value* (Elements::*F)(Value*) const>
Value* own(const Elements& e, Value* x) {
  return (e.*F)(x);
}
template <Value* (Elements::*F)(Value*, Value*) const>
Value* own_pair(const Elements& e, Value* a, Value* b) {
  return (e.*F)(a, b);
}
template <Complex (ComplexElements::*F)(const Complex&) const>
Complex own(const ComplexElements& c, const Complex& x) {
  return (c.*F)(x);
}
template <Complex (ComplexElements::*F)(const Complex&, const Complex&) const>
Complex own_pair(const ComplexElements& c, const Complex& a, const Complex& b) {
  return (c.*F)(a, b);
}

Value* negated(const Elements& e, Value* x) { return x->dtype().is_bool() ? x : e.neg(x); }
Value* difference(const Elements& e, Value* a, Value* b) {
  return a->dtype().is_bool() ? e.op("Xor", {a, b}) : e.sub(a, b);
}
Value* rsqrt(const Elements& e, Value* x) { return e.op("Reciprocal", {e.sqrt(x)}); }
Value* not_of(const Elements& e, Value* x) { return e.op(x->dtype().is_bool() ? "Not" : "BitwiseNot", {x}); }

// --- what is not of one kind

Result<Tensors> absolute(OpImport& o) {
  const Elements e(o);
  if (o.is_complex(0)) return Tensors{{ComplexElements(e).abs({o.in[0].re, o.in[0].im})}};
  return unary<own<&Elements::abs>>(o);
}
Complex greater_of(const ComplexElements& c, const Complex& a, const Complex& b) {
  return c.choose(c.less(a, b), b, a);
}
Complex lesser_of(const ComplexElements& c, const Complex& a, const Complex& b) { return c.choose(c.less(b, a), b, a); }

Result<Tensors> compare(OpImport& o) {
  const Elements e(o);
  const std::string direction = o.text("comparison_direction");
  if (o.in.size() != 2) return o.mistaken("it has not two operands");
  if (o.is_complex(0) && o.is_complex(1)) {
    if (direction != "EQ" && direction != "NE") return o.refuse(direction + " of complex numbers");
    Value* equal = e.both(e.equal(o.in[0].re, o.in[1].re), e.equal(o.in[0].im, o.in[1].im));
    return Tensors{{direction == "EQ" ? equal : e.negation(equal)}};
  }
  FETTLE_TRY(Value * a, o.real(0));
  FETTLE_TRY(Value * b, o.real(1));
  if (const auto known = known_comparison(o)) return Tensors{{o.g.number(*known ? 1 : 0, kBool)}};
  a = widened(e, a);
  b = widened(e, b);
  if (o.text("compare_type") == "TOTALORDER" && a->dtype().is_float()) {
    a = e.order_key(a);
    b = e.order_key(b);
  }
  const bool of_truths = a->dtype().is_bool();
  if (of_truths && direction != "EQ" && direction != "NE") {
    a = e.cast(a, kU8);
    b = e.cast(b, kU8);
  }
  if (direction == "EQ") return Tensors{{e.equal(a, b)}};
  if (direction == "NE") return Tensors{{of_truths ? e.op("Xor", {a, b}) : e.negation(e.equal(a, b))}};
  if (direction == "LT") return Tensors{{e.less(a, b)}};
  if (direction == "LE") return Tensors{{e.op("LessOrEqual", {a, b})}};
  if (direction == "GT") return Tensors{{e.greater(a, b)}};
  if (direction == "GE") return Tensors{{e.op("GreaterOrEqual", {a, b})}};
  return o.mistaken(fmt::format("comparison_direction is \"{}\"", direction));
}

Result<Tensors> select(OpImport& o) {
  const Elements e(o);
  FETTLE_TRY(Value * condition, o.real(0));
  if (o.in.size() != 3 || !o.in[1].re || !o.in[2].re) return o.mistaken("it has not three operands");
  if (condition->is_constant() && condition->rank() == 0)
    return Tensors{o.in[condition->constant->int_at(0) != 0 ? 1 : 2]};
  Tensor result{e.choose(condition, o.in[1].re, o.in[2].re)};
  if (o.is_complex(1) && o.is_complex(2)) result.im = e.choose(condition, o.in[1].im, o.in[2].im);
  return Tensors{result};
}

// (least, operand, most)
Result<Tensors> clamp(OpImport& o) {
  const Elements e(o);
  if (o.in.size() != 3) return o.mistaken("it has not three operands");
  if (o.is_complex(0) && o.is_complex(1) && o.is_complex(2)) {
    const ComplexElements c(e);
    const auto part = [&](size_t i) { return Complex{o.in[i].re, o.in[i].im}; };
    const Complex made = lesser_of(c, greater_of(c, part(1), part(0)), part(2));
    return Tensors{{made.re, made.im}};
  }
  Values x;
  for (size_t i = 0; i < 3; ++i) {
    FETTLE_TRY(Value * part, o.real(i));
    x.push_back(widened(e, part));
  }
  const bool of_truths = x[0]->dtype().is_bool();
  Value* made = of_truths ? e.both(e.either(x[1], x[0]), x[2]) : e.least(e.greatest(x[1], x[0]), x[2]);
  return Tensors{{e.cast(made, o.result_dtype())}};
}

// Floats become the nearest integer towards zero; small ones go by f32.
Result<Tensors> convert(OpImport& o) {
  const Elements e(o);
  const bool to_complex = o.result_type().element.is_complex;
  const DType dtype = o.result_dtype();
  Tensor result{e.cast(o.in[0].re, dtype)};
  if (to_complex)
    result.im = o.is_complex(0) ? e.cast(o.in[0].im, dtype) : o.expand(o.number(0, dtype), o.in[0].re->shape());
  return Tensors{result};
}

Result<Tensors> real_part(OpImport& o) { return Tensors{{o.in[0].re}}; }
Result<Tensors> imaginary_part(OpImport& o) {
  return Tensors{{o.is_complex(0) ? o.in[0].im : o.expand(o.number(0, o.result_dtype()), o.in[0].re->shape())}};
}
Result<Tensors> complex_of(OpImport& o) {
  FETTLE_TRY(Value * re, o.real(0));
  FETTLE_TRY(Value * im, o.real(1));
  return Tensors{{re, im}};
}
Result<Tensors> is_finite(OpImport& o) { return unary<own<&Elements::is_finite>>(o); }

Result<Tensors> reduce_precision(OpImport& o) {
  const Elements e(o);
  FETTLE_TRY(Value * x, o.real(0));
  const int64_t exponent = o.integer("exponent_bits"), fraction = o.integer("mantissa_bits");
  if (exponent < 1 || fraction < 0) return o.mistaken("exponent_bits or mantissa_bits");
  if (!x->dtype().is_float()) return o.refuse("of " + x->dtype().to_string());
  return Tensors{{e.rounded_to(x, exponent, fraction)}};
}

// The same bits, as elements of another width: the last dim has those that are of one, the lowest bits first.
Result<Tensors> bitcast_convert(OpImport& o) {
  const Elements e(o);
  const Type& type = o.result_type();
  const auto width = [](DType dtype, bool is_complex) { return (dtype.is_bool() ? 8 : int{dtype.bits}) << is_complex; };
  const Tensor& x = o.in[0];
  const DType from = x.re->dtype(), to = type.element.dtype;
  const int before = width(from, x.is_complex()), after = width(to, type.element.is_complex);
  const int64_t rank = std::ssize(x.re->shape());
  Tensor result;
  result.quantization = type.element.quantization;
  if (before == after && x.is_complex() == type.element.is_complex) {
    result.re = e.bits(x.re, to);
    if (x.is_complex()) result.im = e.bits(x.im, to);
    return Tensors{result};
  }
  if (from.bits < 8 || to.bits < 8) {
    if (from.bits < 8 && !from.is_bool() && to.bits == 8) {
      // Their low bits, side by side.
      const DType byte = kU8;
      const int64_t count = 8 / from.bits;
      Value* all = nullptr;
      for (int64_t k = 0; k < count; ++k) {
        Value* low = e.cast(e.cast(o.g.reshape(o.g.slice(x.re, rank - 1, k, k + 1), *o.result_shape()), kI8), byte);
        low = e.bit_and(low, e.whole((1u << from.bits) - 1, low));
        low = k == 0 ? low : e.shifted(low, k * from.bits);
        all = all ? e.bit_or(all, low) : low;
      }
      return Tensors{{e.bits(all, to)}};
    }
    if (from.bits == 8 && !to.is_bool()) {
      Values parts;
      for (int64_t k = 0; k < 8 / to.bits; ++k) {
        Value* word = e.bits(x.re, kU8);
        word = k == 0 ? word : e.shifted(word, -k * to.bits);
        parts.push_back(o.g.unsqueeze(e.cast(word, to), {rank}));
      }
      return Tensors{{o.g("Concat", parts, {{{"axis", rank}}})}};
    }
    return o.refuse(fmt::format("from {} to {}", from.to_string(), to.to_string()));
  }
  // As words of the narrower of both widths.
  if (before > after) {
    Values words;
    for (Value* part : {x.re, x.im}) {
      if (!part) continue;
      const int own = width(from, false);
      Value* as_int = e.bits(part, unsigned_of(from));
      for (int at = 0; at < own; at += after) {
        Value* word = at == 0 ? as_int : e.shifted(as_int, -at);
        words.push_back(o.g.unsqueeze(e.bits(e.cast(word, unsigned_of(to)), to), {rank}));
      }
    }
    if (type.element.is_complex) return o.refuse("to complex numbers");
    return Tensors{{o.g("Concat", words, {{{"axis", rank}}})}};
  }
  if (x.is_complex()) return o.refuse("from complex numbers");
  const int own = width(to, false);
  FETTLE_TRY(const Shape shape, o.result_shape());
  for (int part = 0; part < after / own; ++part) {
    Value* all = nullptr;
    for (int at = 0; at < own; at += before) {
      const int64_t k = (part * own + at) / before;
      Value* word = o.g.reshape(o.g.slice(x.re, rank - 1, k, k + 1), shape);
      word = e.cast(e.bits(word, unsigned_of(from)), unsigned_of(to));
      word = at == 0 ? word : e.shifted(word, at);
      all = all ? e.bit_or(all, word) : word;
    }
    (part == 0 ? result.re : result.im) = e.bits(all, to);
  }
  return Tensors{result};
}

using C = ComplexElements;
using E = Elements;
constexpr OpEntry kElementwise[] = {
    {"stablehlo.abs", absolute},
    {"stablehlo.add", binary<either_pair<"Add", "Or">, own_pair<&C::add>>},
    {"stablehlo.and", binary<own_pair<&E::bit_and>>},
    {"stablehlo.atan2", binary<own_pair<&E::atan2>, own_pair<&C::atan2>>},
    {"stablehlo.bitcast_convert", bitcast_convert},
    {"stablehlo.cbrt", unary<own<&E::cbrt>, own<&C::cbrt>>},
    {"stablehlo.ceil", unary<plain<"Ceil">>},
    {"stablehlo.clamp", clamp},
    {"stablehlo.compare", compare},
    {"stablehlo.complex", complex_of},
    {"stablehlo.convert", convert},
    {"stablehlo.cosine", unary<plain<"Cos">, own<&C::cos>>},
    {"stablehlo.count_leading_zeros", unary<own<&E::leading_zeros>>},
    {"stablehlo.divide", binary<own_pair<&E::quotient>, own_pair<&C::div>>},
    {"stablehlo.exponential", unary<plain<"Exp">, own<&C::exp>>},
    {"stablehlo.exponential_minus_one", unary<own<&E::expm1>, own<&C::expm1>>},
    {"stablehlo.floor", unary<plain<"Floor">>},
    {"stablehlo.imag", imaginary_part},
    {"stablehlo.is_finite", is_finite},
    {"stablehlo.log", unary<plain<"Log">, own<&C::log>>},
    {"stablehlo.log_plus_one", unary<own<&E::log1p>, own<&C::log1p>>},
    {"stablehlo.logistic", unary<plain<"Sigmoid">, own<&C::logistic>>},
    {"stablehlo.maximum", binary<either_pair<"Max", "Or">, greater_of>},
    {"stablehlo.minimum", binary<either_pair<"Min", "And">, lesser_of>},
    {"stablehlo.multiply", binary<either_pair<"Mul", "And">, own_pair<&C::mul>>},
    {"stablehlo.negate", unary<negated, own<&C::neg>>},
    {"stablehlo.not", unary<not_of>},
    {"stablehlo.or", binary<own_pair<&E::bit_or>>},
    {"stablehlo.popcnt", unary<own<&E::population>>},
    {"stablehlo.power", binary<pair<"Pow">, own_pair<&C::pow>>},
    {"stablehlo.real", real_part},
    {"stablehlo.reduce_precision", reduce_precision},
    {"stablehlo.remainder", binary<own_pair<&E::remainder>>},
    {"stablehlo.round_nearest_afz", unary<own<&E::round_away>>},
    {"stablehlo.round_nearest_even", unary<plain<"Round">>},
    {"stablehlo.rsqrt", unary<rsqrt, own<&C::rsqrt>>},
    {"stablehlo.select", select},
    {"stablehlo.shift_left", binary<own_pair<&E::shift_left>>},
    {"stablehlo.shift_right_arithmetic", binary<own_pair<&E::shift_right_arithmetic>>},
    {"stablehlo.shift_right_logical", binary<own_pair<&E::shift_right>>},
    {"stablehlo.sign", unary<own<&E::sign>, own<&C::sign>>},
    {"stablehlo.sine", unary<plain<"Sin">, own<&C::sin>>},
    {"stablehlo.sqrt", unary<plain<"Sqrt">, own<&C::sqrt>>},
    {"stablehlo.subtract", binary<difference, own_pair<&C::sub>>},
    {"stablehlo.tan", unary<plain<"Tan">, own<&C::tan>>},
    {"stablehlo.tanh", unary<plain<"Tanh">, own<&C::tanh>>},
    {"stablehlo.xor", binary<own_pair<&E::bit_xor>>},
};

}  // namespace

extern constinit const OpEntries elementwise_operators{kElementwise};

}  // namespace fettle::stablehlo
