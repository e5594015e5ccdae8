#pragma once
// Functions of single elements, on values of the graph: what StableHLO's operators, CHLO's and random numbers share.

#include "frontend/stablehlo/importer.h"

namespace fettle::stablehlo {

/// Writes elementwise work. Operands of one call have one shape, or broadcast as the graph's do.
class Elements {
 public:
  explicit Elements(OpImport& o) : o_(o) {}

  Value* op(std::string_view name, Values inputs, Attrs attrs = {}) const {
    return o_.elementwise(name, std::move(inputs), std::move(attrs));
  }
  Value* add(Value* a, Value* b) const { return op("Add", {a, b}); }
  Value* sub(Value* a, Value* b) const { return op("Sub", {a, b}); }
  Value* mul(Value* a, Value* b) const { return op("Mul", {a, b}); }
  Value* div(Value* a, Value* b) const { return op("Div", {a, b}); }
  Value* neg(Value* a) const { return op("Neg", {a}); }
  Value* abs(Value* a) const { return op("Abs", {a}); }
  Value* sqrt(Value* a) const { return op("Sqrt", {a}); }
  Value* exp(Value* a) const { return op("Exp", {a}); }
  Value* log(Value* a) const { return op("Log", {a}); }
  Value* floor(Value* a) const { return op("Floor", {a}); }
  Value* less(Value* a, Value* b) const { return op("Less", {a, b}); }
  Value* greater(Value* a, Value* b) const { return op("Greater", {a, b}); }
  Value* equal(Value* a, Value* b) const { return op("Equal", {a, b}); }
  Value* both(Value* a, Value* b) const { return op("And", {a, b}); }
  Value* either(Value* a, Value* b) const { return op("Or", {a, b}); }
  Value* negation(Value* a) const { return op("Not", {a}); }
  Value* least(Value* a, Value* b) const { return op("Min", {a, b}); }
  Value* greatest(Value* a, Value* b) const { return op("Max", {a, b}); }
  Value* choose(Value* condition, Value* yes, Value* no) const { return op("Where", {condition, yes, no}); }
  Value* is_nan(Value* a) const { return op("IsNaN", {a}); }
  /// A number of x's type.
  Value* number(double value, const Value* x) const { return o_.number(value, x->dtype()); }
  Value* whole(uint64_t bits, const Value* x) const { return o_.integer_constant(bits, x->dtype()); }
  Value* cast(Value* x, DType dtype) const;
  Value* bits(Value* x, DType dtype) const;  // the same bits

  // Of integers.
  Value* shift_left(Value* x, Value* by) const { return shift(x, by, "LEFT"); }
  Value* shift_right(Value* x, Value* by) const { return shift(x, by, "RIGHT"); }  // zeros come in
  Value* shift_right_arithmetic(Value* x, Value* by) const;                        // signs come in
  Value* shifted(Value* x, int64_t by) const;  // left; right where it is negative, of unsigned numbers
  Value* bit_and(Value* a, Value* b) const;    // of truths, too
  Value* bit_or(Value* a, Value* b) const;
  Value* bit_xor(Value* a, Value* b) const;
  Value* population(Value* x) const;
  Value* leading_zeros(Value* x) const;

  // Of all kinds of numbers, as StableHLO defines them.
  Value* quotient(Value* a, Value* b) const;
  Value* remainder(Value* a, Value* b) const;
  Value* sign(Value* x) const;
  Value* is_finite(Value* x) const;
  Value* is_negative(Value* x) const;  // its sign's bit
  Value* with_sign(Value* magnitude, Value* sign) const;

  // Of floats.
  Value* atan2(Value* y, Value* x) const;
  Value* expm1(Value* x) const;
  Value* log1p(Value* x) const;
  Value* cbrt(Value* x) const;
  Value* hypot(Value* a, Value* b) const;
  Value* round_away(Value* x) const;  // halves away from zero
  Value* trunc(Value* x) const;
  Value* sinh(Value* x) const;
  Value* cosh(Value* x) const;
  Value* rounded_to(Value* x, int64_t exponent_bits, int64_t mantissa_bits) const;
  /// A signed integer that is ordered as floats are: -NaN, -inf, …, -0, 0, …, inf, NaN.
  Value* order_key(Value* x) const;
  /// c[0] x^n + … + c[n]
  Value* polynomial(Value* x, std::span<const double> c) const;
  Value* polynomial(Value* x, std::initializer_list<double> c) const {
    return polynomial(x, std::span(c.begin(), c.size()));
  }

 private:
  Value* shift(Value* x, Value* by, const char* direction) const;

  OpImport& o_;
};

/// The unsigned, and the signed, integer type of as many bits.
constexpr DType unsigned_of(DType dtype) { return {TypeCode::kUInt, dtype.is_bool() ? uint8_t{8} : dtype.bits, 1}; }
constexpr DType signed_of(DType dtype) { return {TypeCode::kInt, dtype.is_bool() ? uint8_t{8} : dtype.bits, 1}; }
/// Of a float: how many bits its fraction has.
constexpr int mantissa_bits(DType dtype) { return dtype == kF64 ? 52 : dtype == kF32 ? 23 : dtype == kF16 ? 10 : 7; }

/// A complex number's parts.
struct Complex {
  Value *re, *im;
};
class ComplexElements {
 public:
  explicit ComplexElements(const Elements& e) : e_(e) {}

  const Elements& elements() const { return e_; }
  Complex add(const Complex& a, const Complex& b) const { return {e_.add(a.re, b.re), e_.add(a.im, b.im)}; }
  Complex sub(const Complex& a, const Complex& b) const { return {e_.sub(a.re, b.re), e_.sub(a.im, b.im)}; }
  Complex mul(const Complex& a, const Complex& b) const;
  Complex div(const Complex& a, const Complex& b) const;
  Complex neg(const Complex& a) const { return {e_.neg(a.re), e_.neg(a.im)}; }
  Complex conj(const Complex& a) const { return {a.re, e_.neg(a.im)}; }
  Complex scaled(const Complex& a, Value* by) const { return {e_.mul(a.re, by), e_.mul(a.im, by)}; }
  Complex choose(Value* c, const Complex& a, const Complex& b) const {
    return {e_.choose(c, a.re, b.re), e_.choose(c, a.im, b.im)};
  }
  Value* abs(const Complex& a) const { return e_.hypot(a.re, a.im); }
  Complex exp(const Complex& a) const;
  Complex expm1(const Complex& a) const;
  Complex log(const Complex& a) const;
  Complex log1p(const Complex& a) const;
  Complex sqrt(const Complex& a) const;
  Complex rsqrt(const Complex& a) const;
  Complex cbrt(const Complex& a) const;
  Complex pow(const Complex& a, const Complex& b) const;
  Complex sin(const Complex& a) const;
  Complex cos(const Complex& a) const;
  Complex tan(const Complex& a) const;
  Complex tanh(const Complex& a) const;
  Complex logistic(const Complex& a) const;
  Complex sign(const Complex& a) const;
  Complex polar(Value* magnitude, Value* angle) const;
  Complex real(Value* x) const { return {x, e_.number(0, x)}; }
  /// By real parts, then imaginary ones.
  Value* less(const Complex& a, const Complex& b) const;

 private:
  const Elements& e_;
};

}  // namespace fettle::stablehlo
