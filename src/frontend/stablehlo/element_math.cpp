#include <cmath>

#include "frontend/stablehlo/elementwise.h"
#include "graph/op_util.h"
#include "graph/small_types.h"

namespace fettle::stablehlo {
namespace {

// Whether every element is known, and fulfils this.
template <typename F>
bool all_known(const Value* x, const F& holds) {
  if (!x->is_constant()) return false;
  for (int64_t i = 0; i < x->constant->n_elems(); ++i)
    if (!holds(x->constant->int_at(i))) return false;
  return true;
}

// Formulas of several steps round once only.
bool is_half(const Value* x) { return computed_dtype(x->dtype()) != x->dtype(); }

}  // namespace

Value* Elements::cast(Value* x, DType dtype) const {
  if (x->dtype() == dtype) return x;
  Attrs attrs{{"to", onnx_number(dtype)}};
  if (dtype.is_small_float()) attrs.set("saturate", int64_t{0});
  return op("Cast", {x}, std::move(attrs));
}

Value* Elements::bits(Value* x, DType dtype) const {
  return x->dtype() == dtype ? x : op("BitCast", {x}, {{{"to", onnx_number(dtype)}}});
}

// --- integers

// Amounts of as many bits as there are, or more, leave nothing. A negative one is a large number.
Value* Elements::shift(Value* x, Value* by, const char* direction) const {
  const DType type = unsigned_of(x->dtype());
  const int width = type.bits;
  Value *base = bits(x, type), *amount = bits(by, type);
  const auto moved = [&](Value* n) { return op("BitShift", {base, n}, {{{"direction", std::string(direction)}}}); };
  if (all_known(by, [&](int64_t n) { return n >= 0 && n < width; })) return bits(moved(amount), x->dtype());
  Value* most = whole(static_cast<uint64_t>(width - 1), base);
  Value* made = moved(least(amount, most));
  return bits(choose(greater(amount, most), whole(0, base), made), x->dtype());
}
Value* Elements::shift_right_arithmetic(Value* x, Value* by) const {
  const DType type = unsigned_of(x->dtype()), is_signed = signed_of(x->dtype());
  Value* most = o_.integer_constant(static_cast<uint64_t>(type.bits - 1), type);
  Value* amount = bits(least(bits(by, type), most), is_signed);
  return bits(op("BitShift", {bits(x, is_signed), amount}, {{{"direction", std::string("RIGHT")}}}), x->dtype());
}
Value* Elements::shifted(Value* x, int64_t by) const {
  Value* amount = whole(static_cast<uint64_t>(std::abs(by)), x);
  return op("BitShift", {x, amount}, {{{"direction", std::string(by < 0 ? "RIGHT" : "LEFT")}}});
}
Value* Elements::bit_and(Value* a, Value* b) const { return op(a->dtype().is_bool() ? "And" : "BitwiseAnd", {a, b}); }
Value* Elements::bit_or(Value* a, Value* b) const { return op(a->dtype().is_bool() ? "Or" : "BitwiseOr", {a, b}); }
Value* Elements::bit_xor(Value* a, Value* b) const { return op(a->dtype().is_bool() ? "Xor" : "BitwiseXor", {a, b}); }

// Sums of neighbours: of one bit, of two, of four, then of all bytes by a product.
Value* Elements::population(Value* x) const {
  const DType given = x->dtype();
  const DType work = given.bits == 64 ? kU64 : kU32;
  Value* v = cast(bits(x, unsigned_of(given)), work);
  const auto repeated = [&](uint64_t byte) { return whole(byte * 0x0101010101010101u, v); };
  v = sub(v, bit_and(shifted(v, -1), repeated(0x55)));
  v = add(bit_and(v, repeated(0x33)), bit_and(shifted(v, -2), repeated(0x33)));
  v = bit_and(add(v, shifted(v, -4)), repeated(0x0f));
  v = shifted(mul(v, repeated(0x01)), -(work.bits - 8));
  return cast(v, given);
}
// What is left when all bits below the first are set.
Value* Elements::leading_zeros(Value* x) const {
  const DType given = x->dtype();
  const DType work = given.bits == 64 ? kU64 : kU32;
  Value* v = cast(bits(x, unsigned_of(given)), work);
  for (int by = 1; by < given.bits; by *= 2) v = bit_or(v, shifted(v, -by));
  Value* used = population(v);
  return cast(sub(whole(given.bits, used), used), given);
}

// --- arithmetic

Value* Elements::quotient(Value* a, Value* b) const {
  const DType type = a->dtype();
  if (!type.is_int()) return div(a, b);
  const bool is_signed = type.code == TypeCode::kInt;
  if (all_known(b, [&](int64_t n) { return n != 0 && !(is_signed && n == -1); })) return div(a, b);
  Value *zero = whole(0, a), *one = whole(1, a), *ones = whole(~uint64_t{0}, a);
  Value* is_zero = equal(b, zero);
  if (!is_signed) return choose(is_zero, ones, div(a, choose(is_zero, one, b)));
  Value* is_minus = equal(b, ones);
  Value* made = div(a, choose(either(is_zero, is_minus), one, b));
  return choose(is_zero, ones, choose(is_minus, sub(zero, a), made));
}

// Of floats it is exact while the quotient has fewer bits than f64 leaves free.
Value* Elements::remainder(Value* a, Value* b) const {
  const DType type = a->dtype();
  const Attrs truncates{{"fmod", int64_t{1}}};
  if (type.is_int()) {
    const bool is_signed = type.code == TypeCode::kInt;
    if (all_known(b, [&](int64_t n) { return n != 0 && !(is_signed && n == -1); })) return op("Mod", {a, b}, truncates);
    Value *zero = whole(0, a), *one = whole(1, a);
    Value* is_zero = equal(b, zero);
    Value* by_one = is_signed ? either(is_zero, equal(b, whole(~uint64_t{0}, a))) : is_zero;
    return choose(is_zero, a, op("Mod", {a, choose(by_one, one, b)}, truncates));
  }
  Value *x = cast(abs(a), kF64), *y = cast(abs(b), kF64);
  Value* rest = sub(x, mul(floor(div(x, y)), y));
  // The quotient may have been rounded across a whole number.
  rest = choose(less(rest, number(0, rest)), add(rest, y), rest);
  rest = choose(op("GreaterOrEqual", {rest, y}), sub(rest, y), rest);
  // What is less than the divisor stays, as it does by infinity.
  rest = choose(less(x, y), x, rest);
  return with_sign(cast(rest, type), a);
}

Value* Elements::sign(Value* x) const {
  if (!x->dtype().is_float()) return op("Sign", {x});
  // Zeros keep their sign, and NaN is itself.
  return choose(either(is_nan(x), equal(x, number(0, x))), x, op("Sign", {x}));
}
Value* Elements::is_finite(Value* x) const { return less(abs(x), number(INFINITY, x)); }
Value* Elements::is_negative(Value* x) const {
  Value* as_int = bits(x, signed_of(x->dtype()));
  return less(as_int, whole(0, as_int));
}
Value* Elements::with_sign(Value* magnitude, Value* sign) const {
  const DType type = unsigned_of(magnitude->dtype());
  const uint64_t mask = uint64_t{1} << (type.bits - 1);
  Value *a = bits(magnitude, type), *b = bits(sign, type);
  return bits(bit_or(bit_and(a, whole(mask - 1, a)), bit_and(b, whole(mask, b))), magnitude->dtype());
}

// --- floats

Value* Elements::atan2(Value* y, Value* x) const {
  if (is_half(y)) return cast(atan2(cast(y, kF32), cast(x, kF32)), y->dtype());
  Value *a = abs(x), *b = abs(y), *zero = number(0, x), *one = number(1, x);
  Value *high = greatest(a, b), *low = least(a, b);
  // Equal infinities are as equal numbers, and so are zeros but for the angle, which is zero.
  Value* ratio = choose(equal(high, zero), zero, choose(equal(a, b), one, div(low, high)));
  Value* angle = op("Atan", {ratio});
  angle = choose(greater(b, a), sub(number(M_PI_2, x), angle), angle);
  angle = choose(is_negative(x), sub(number(M_PI, x), angle), angle);
  angle = choose(either(is_nan(x), is_nan(y)), add(x, y), angle);
  return with_sign(angle, y);
}

// Kahan: the rounding of e^x is undone by its own logarithm.
Value* Elements::expm1(Value* x) const {
  if (is_half(x)) return cast(expm1(cast(x, kF32)), x->dtype());
  Value *one = number(1, x), *u = exp(x), *less_one = sub(u, one);
  Value* is_one = equal(u, one);
  Value* is_plain = either(equal(less_one, number(-1, x)), op("Not", {is_finite(u)}));
  Value* corrected = div(mul(less_one, x), log(choose(is_one, number(2, x), u)));
  return choose(is_one, x, choose(is_plain, less_one, corrected));
}
Value* Elements::log1p(Value* x) const {
  if (is_half(x)) return cast(log1p(cast(x, kF32)), x->dtype());
  Value *one = number(1, x), *u = add(x, one), *less_one = sub(u, one);
  Value* is_one = equal(u, one);
  Value* is_plain = either(op("Not", {is_finite(u)}), equal(u, number(0, x)));
  Value* corrected = div(mul(log(u), x), choose(is_one, one, less_one));
  return choose(is_one, x, choose(is_plain, log(u), corrected));
}
// A power, and a step of Newton's from it.
Value* Elements::cbrt(Value* x) const {
  if (is_half(x)) return cast(cbrt(cast(x, kF32)), x->dtype());
  Value* a = abs(x);
  Value* y = op("Pow", {a, number(1.0 / 3, x)});
  Value* square = mul(y, y);
  Value* is_plain = either(equal(square, number(0, x)), op("Not", {is_finite(mul(square, y))}));
  Value* better = sub(y, div(sub(y, div(a, choose(is_plain, number(1, x), square))), number(3, x)));
  return with_sign(choose(is_plain, y, better), x);
}
Value* Elements::hypot(Value* a, Value* b) const {
  if (is_half(a)) return cast(hypot(cast(a, kF32), cast(b, kF32)), a->dtype());
  Value *x = abs(a), *y = abs(b);
  Value *high = greatest(x, y), *low = least(x, y), *one = number(1, x);
  Value* is_plain = either(equal(high, number(0, x)), op("Not", {is_finite(high)}));
  Value* ratio = div(low, choose(is_plain, one, high));
  Value* made = choose(is_plain, high, mul(high, sqrt(add(one, mul(ratio, ratio)))));
  // An infinite part makes it infinite, whatever the other is.
  Value* infinite = number(INFINITY, x);
  return choose(either(equal(x, infinite), equal(y, infinite)), infinite, made);
}
Value* Elements::round_away(Value* x) const {
  Value *a = abs(x), *down = floor(a);
  Value* up = op("GreaterOrEqual", {sub(a, down), number(0.5, x)});
  Value* is_whole = op("Not", {is_finite(a)});
  return with_sign(choose(is_whole, a, add(down, choose(up, number(1, x), number(0, x)))), x);
}
Value* Elements::trunc(Value* x) const { return with_sign(floor(abs(x)), x); }
Value* Elements::sinh(Value* x) const {
  if (is_half(x)) return cast(sinh(cast(x, kF32)), x->dtype());
  // (e^x - 1 + (e^x - 1) / e^x) / 2; large ones by half of the exponent, so that nothing overflows too early.
  Value *a = abs(x), *half = number(0.5, x), *one = number(1, x);
  Value* m = expm1(a);
  Value* near = mul(half, add(m, div(m, add(m, one))));
  Value* e = exp(mul(a, half));
  return with_sign(choose(greater(a, number(30, x)), mul(mul(half, e), e), near), x);
}
Value* Elements::cosh(Value* x) const {
  if (is_half(x)) return cast(cosh(cast(x, kF32)), x->dtype());
  Value *half = number(0.5, x), *e = exp(mul(abs(x), half));
  Value* scaled = mul(half, e);
  return add(mul(scaled, e), div(div(half, e), e));
}

Value* Elements::order_key(Value* x) const {
  const DType type = signed_of(x->dtype());
  Value* as_int = bits(x, type);
  const uint64_t mask = (uint64_t{1} << (type.bits - 1)) - 1;
  return choose(less(as_int, whole(0, as_int)), bit_xor(as_int, whole(mask, as_int)), as_int);
}

// Rounds to the nearest, halves to even; too large becomes infinite, what would be subnormal zero.
Value* Elements::rounded_to(Value* x, int64_t exponent_bits, int64_t fraction_bits) const {
  const DType type = unsigned_of(x->dtype());
  const int fraction = mantissa_bits(x->dtype()), exponent = type.bits - 1 - fraction;
  Value* v = bits(x, type);
  const uint64_t sign_mask = uint64_t{1} << (type.bits - 1);
  Value* sign = bit_and(v, whole(sign_mask, v));
  if (fraction_bits < fraction) {
    const auto dropped = static_cast<int>(fraction - fraction_bits);
    const uint64_t last = uint64_t{1} << dropped;
    Value* is_odd = bit_and(shifted(v, -dropped), whole(1, v));
    v = bit_and(add(v, add(is_odd, whole((last >> 1) - 1, v))), whole(~(last - 1), v));
  }
  if (exponent_bits < exponent) {
    const uint64_t bias = (uint64_t{1} << (exponent - 1)) - 1, own = (uint64_t{1} << (exponent_bits - 1)) - 1;
    const uint64_t mask = ((uint64_t{1} << exponent) - 1) << fraction;
    Value* found = bit_and(v, whole(mask, v));
    Value* overflows = greater(found, whole((bias + own) << fraction, v));
    Value* underflows = op("LessOrEqual", {found, whole((bias - own) << fraction, v)});
    v = choose(overflows, bit_or(sign, whole(mask, v)), choose(underflows, sign, v));
  }
  // Without a fraction there is no NaN.
  return choose(is_nan(x), fraction_bits == 0 ? number(INFINITY, x) : x, bits(v, x->dtype()));
}

Value* Elements::polynomial(Value* x, std::span<const double> c) const {
  Value* sum = number(c[0], x);
  for (const double next : c.subspan(1)) sum = add(mul(sum, x), number(next, x));
  return sum;
}

// --- complex numbers

Complex ComplexElements::mul(const Complex& a, const Complex& b) const {
  return {e_.sub(e_.mul(a.re, b.re), e_.mul(a.im, b.im)), e_.add(e_.mul(a.re, b.im), e_.mul(a.im, b.re))};
}
// Smith's: by the larger part, so that nothing overflows that need not.
Complex ComplexElements::div(const Complex& a, const Complex& b) const {
  Value* by_real = e_.op("GreaterOrEqual", {e_.abs(b.re), e_.abs(b.im)});
  Value *high = e_.choose(by_real, b.re, b.im), *low = e_.choose(by_real, b.im, b.re);
  Value* ratio = e_.div(low, high);
  Value* scale = e_.add(high, e_.mul(low, ratio));
  Value *x = e_.choose(by_real, a.re, a.im), *y = e_.choose(by_real, a.im, a.re);
  Value* re = e_.div(e_.add(x, e_.mul(y, ratio)), scale);
  Value* im = e_.div(e_.sub(y, e_.mul(x, ratio)), scale);
  // By zero, the parts are divided each by itself.
  Value* is_zero = e_.both(e_.equal(b.re, e_.number(0, b.re)), e_.equal(b.im, e_.number(0, b.im)));
  im = e_.choose(by_real, im, e_.neg(im));
  return {e_.choose(is_zero, e_.div(a.re, b.re), re), e_.choose(is_zero, e_.div(a.im, b.re), im)};
}
Complex ComplexElements::polar(Value* magnitude, Value* angle) const {
  return {e_.mul(magnitude, e_.op("Cos", {angle})), e_.mul(magnitude, e_.op("Sin", {angle}))};
}
Complex ComplexElements::exp(const Complex& a) const {
  Value* is_real = e_.equal(a.im, e_.number(0, a.im));
  const Complex made = polar(e_.exp(a.re), a.im);
  return {e_.choose(is_real, e_.exp(a.re), made.re), e_.choose(is_real, a.im, made.im)};
}
Complex ComplexElements::expm1(const Complex& a) const {
  // e^x cos y - 1 = (e^x - 1) cos y - 2 sin²(y / 2)
  Value* half = e_.op("Sin", {e_.mul(a.im, e_.number(0.5, a.im))});
  Value* re = e_.sub(e_.mul(e_.expm1(a.re), e_.op("Cos", {a.im})), e_.mul(e_.number(2, half), e_.mul(half, half)));
  return {re, e_.mul(e_.exp(a.re), e_.op("Sin", {a.im}))};
}
Complex ComplexElements::log(const Complex& a) const { return {e_.log(abs(a)), e_.atan2(a.im, a.re)}; }
Complex ComplexElements::log1p(const Complex& a) const {
  // log |1 + a|² / 2, of what is near one by log1p
  Value* re = a.re;
  Value* square = e_.add(e_.mul(re, e_.add(re, e_.number(2, re))), e_.mul(a.im, a.im));
  Value* shifted = e_.add(re, e_.number(1, re));
  Value* is_near = e_.less(e_.abs(square), e_.number(0.5, re));
  Value* near = e_.mul(e_.number(0.5, re), e_.log1p(e_.choose(is_near, square, e_.number(0, re))));
  return {e_.choose(is_near, near, e_.log(e_.hypot(shifted, a.im))), e_.atan2(a.im, shifted)};
}
Complex ComplexElements::sqrt(const Complex& a) const {
  // √((|a| + |x|) / 2), and the other part from it.
  Value *half = e_.number(0.5, a.re), *zero = e_.number(0, a.re);
  Value* root = e_.sqrt(e_.mul(half, e_.add(abs(a), e_.abs(a.re))));
  Value* is_zero = e_.equal(root, zero);
  Value* other = e_.choose(is_zero, zero, e_.div(e_.mul(half, e_.abs(a.im)), e_.choose(is_zero, half, root)));
  Value* is_infinite = e_.equal(e_.abs(a.im), e_.number(INFINITY, a.im));
  root = e_.choose(is_infinite, e_.abs(a.im), root);
  other = e_.choose(is_infinite, e_.abs(a.im), other);
  Value* left = e_.is_negative(a.re);
  return {e_.choose(left, other, root), e_.with_sign(e_.choose(left, root, other), a.im)};
}
Complex ComplexElements::rsqrt(const Complex& a) const { return div(real(e_.number(1, a.re)), sqrt(a)); }
Complex ComplexElements::cbrt(const Complex& a) const {
  return polar(e_.cbrt(abs(a)), e_.div(e_.atan2(a.im, a.re), e_.number(3, a.re)));
}
Complex ComplexElements::pow(const Complex& a, const Complex& b) const {
  Value* zero = e_.number(0, a.re);
  const Complex one = real(e_.number(1, a.re));
  Value* none = e_.both(e_.equal(b.re, zero), e_.equal(b.im, zero));
  Value* is_zero = e_.both(e_.equal(a.re, zero), e_.equal(a.im, zero));
  const Complex made = exp(mul(b, log(a)));
  return choose(none, one, choose(is_zero, {zero, zero}, made));
}
Complex ComplexElements::atan2(const Complex& y, const Complex& x) const {
  // -i log((x + i y) / √(x² + y²))
  const Complex sum{e_.sub(x.re, y.im), e_.add(x.im, y.re)};
  const Complex made = log(div(sum, sqrt(add(mul(x, x), mul(y, y)))));
  return {made.im, e_.neg(made.re)};
}
Complex ComplexElements::sin(const Complex& a) const {
  return {e_.mul(e_.op("Sin", {a.re}), e_.cosh(a.im)), e_.mul(e_.op("Cos", {a.re}), e_.sinh(a.im))};
}
Complex ComplexElements::cos(const Complex& a) const {
  return {e_.mul(e_.op("Cos", {a.re}), e_.cosh(a.im)), e_.neg(e_.mul(e_.op("Sin", {a.re}), e_.sinh(a.im)))};
}
Complex ComplexElements::tanh(const Complex& a) const {
  // (t (1 + s²) + i s) / (1 + t² s²) / …: with t = tanh x and s = tan y, (t + i s) / (1 + i t s)
  Value *t = e_.op("Tanh", {a.re}), *s = e_.op("Tan", {a.im});
  Value* one = e_.number(1, t);
  Value *ts = e_.mul(t, s), *scale = e_.add(one, e_.mul(ts, ts));
  Value* sech = e_.sub(one, e_.mul(t, t));
  return {e_.div(e_.mul(t, e_.add(one, e_.mul(s, s))), scale), e_.div(e_.mul(s, sech), scale)};
}
Complex ComplexElements::tan(const Complex& a) const {
  const Complex t = tanh({e_.neg(a.im), a.re});  // tan z = -i tanh(i z)
  return {t.im, e_.neg(t.re)};
}
Complex ComplexElements::logistic(const Complex& a) const {
  const Complex one = real(e_.number(1, a.re));
  return div(one, add(one, exp(neg(a))));
}
Complex ComplexElements::sign(const Complex& a) const {
  Value *size = abs(a), *zero = e_.number(0, size);
  Value* is_zero = e_.equal(size, zero);
  Value* by = e_.choose(is_zero, e_.number(1, size), size);
  return {e_.div(a.re, by), e_.div(a.im, by)};
}
Value* ComplexElements::less(const Complex& a, const Complex& b) const {
  return e_.either(e_.less(a.re, b.re), e_.both(e_.equal(a.re, b.re), e_.less(a.im, b.im)));
}

}  // namespace fettle::stablehlo
