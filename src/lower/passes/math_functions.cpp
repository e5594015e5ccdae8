#include "lower/passes/math_functions.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <initializer_list>
#include <numbers>
#include <span>

#include "base/check.h"
#include "ir/compare.h"

// Polynomials are minimax fits over the stated interval, relative to the function; coefficients lowest degree first.

namespace fettle {
namespace {

/// What differs between the widths.
struct Width {
  int bits, mantissa, bias;
  double round_magic;  // x + magic - magic rounds to an integer, which the low bits of x + magic hold
  double ln2_high, ln2_low;
  double exp_least, exp_greatest;  // beyond, the result is 0 or infinity
  double least_normal;
  int64_t sqrt_half;      // bits of sqrt(1/2)
  int64_t infinity, nan;  // bits
};

// clang-format off: tables of numbers
constexpr Width kWidth32 = {32, 23, 127, 12582912.0, 0.693147182464599609375, -1.904654309148724e-9, -104, 89,
                            1.1754943508222875e-38, 0x3f3504f3, 0x7f800000, 0x7fc00000};
constexpr Width kWidth64 = {64, 52, 1023, 6755399441055744.0, 0.6931471805599453, 2.3190468138462996e-17, -746, 710,
                            2.2250738585072014e-308, 0x3fe6a09e667f3bcd, 0x7ff0000000000000, 0x7ff8000000000000};
constexpr double kExp32[] = {0.4999999403953552, 0.1666652262210846, 0.04166829213500023, 0.008368533104658127,
                             0.0013818306615576148};  // (e^r - 1 - r) / r², |r| <= ln2 / 2
constexpr double kExpSixteenth32[] = {0.5000161965, 0.1666666667};  // (e^r - 1 - r) / r², |r| <= ln2 / 32
constexpr double kExp2Fraction32[] = {1.0, 0.6931512951850891, 0.2401645928621292, 0.055799514055252075,
                                      0.009017480537295341, 0.0018669525161385536};  // 2^f, 0 <= f < 1
constexpr double kExp2Nearest32[] = {1.0, 0.6931468844413757, 0.24022221565246582, 0.05550805851817131,
                                     0.009672494605183601, 0.0013252414064481854};  // 2^f, |f| <= 1/2
constexpr double kExp2Least32 = -151, kExp2Greatest32 = 128;  // beyond, the result is 0 or infinity
constexpr double kExpm32[] = {0.5, 0.1666666567325592, 0.04166649281978607, 0.008333547040820122, 0.0013932313304394484,
                              0.00019760946452151984};  // the same, relative to e^r - 1
constexpr double kLog32[] = {0.3333333134651184,  -0.2500081956386566,  0.2000124156475067,   -0.166234090924263,
                             0.14201579988002777, -0.13159610331058502, 0.12762217223644257, -0.07636439055204391};
// (ln(1+f) - f + f²/2) / f³, sqrt(1/2) <= 1+f <= sqrt(2)
constexpr double kErfcSlope32 = 1.128379225730896;  // f32; what it lacks is the first coefficient
constexpr double kErfc32[] = {-5.4119631220928e-08, 0.6366193890571594, 0.10277783125638962, -0.019153064116835594,
                              -0.00016039618640206754, 0.0016670275945216417, -0.0006328368908725679,
                              0.00011764129158109426, -9.256267730961554e-06};  // -ln(erfc(a))/a - slope, 0 <= a <= 3.95

constexpr double kExp64[] = {0.5, 0.1666666666666667, 0.04166666666666667, 0.00833333333332612, 0.0013888888888883737,
                             0.00019841269874873975, 2.480158732558584e-05, 2.755725533255441e-06, 2.7557273594799413e-07,
                             2.510524515390137e-08, 2.0914707069612355e-09};
constexpr double kAtanh64[] = {0.3333333333333333, 0.20000000000000467, 0.14285714285384377, 0.11111111199790642,
                               0.09090897401602048, 0.07693142511079702, 0.0663378242159887, 0.06549603138521289};
// (atanh(s)/s - 1) / s² in s², s² <= 0.0297
constexpr double kErfSmall64[] = {0.1283791670955126, -0.37612638903183754, 0.1128379167095512, -0.02686617064512984,
                                  0.0052239776254232985, -0.000854832702193483, 0.00012055332902888736,
                                  -1.4925647567519332e-05, 1.6462045441468418e-06, -1.6364642158167616e-07,
                                  1.4792401209404813e-08, -1.216456005728345e-09, 8.709045129053106e-11,
                                  -4.230945824295338e-12};
constexpr double kErfMiddle64[] = {-4.317863525433222, -2.9697081756100614, -0.5118413436544144, -0.008664823286005638,
                                   0.0014633569156604685, -0.00022878512860644658, 3.106135597007542e-05,
                                   -3.169102833468906e-06, 8.284538417906188e-08, 6.689007073311063e-08,
                                   -2.26340535743222e-08, 4.777014495154488e-09, -7.309100919071604e-10,
                                   6.800017089297162e-11, 4.1872034629821604e-12, -4.586386562635802e-12,
                                   1.1424300816556865e-12};  // ln(erfc(1.75 + 0.75 t)), |t| <= 1
constexpr double kErfLarge64[] = {-20.107769901469705, -15.266607502163417, -2.989259015215455, -0.017491629495039008,
                                  0.004506834156977217, -0.0011879764779257158, 0.0003124836663016823,
                                  -8.076233630872768e-05, 2.024899879386897e-05, -4.856436904792214e-06,
                                  1.0914354279149651e-06, -2.2036145256849016e-07, 3.659438005184074e-08,
                                  -4.245910604686772e-09, -6.819559129468748e-10, 1.2688950511658068e-09,
                                  -4.6008901757710624e-10};  // ln(erfc(4.25 + 1.75 t)), |t| <= 1
constexpr double kSin64[] = {-0.16666666666666666, 0.008333333333333331, -0.0001984126984126504, 2.755731921931959e-06,
                             -2.5052106225650122e-08, 1.60585305421325e-10, -7.586633672657066e-13};
// (sin(r)/r - 1) / r² in r², |r| <= pi/4
constexpr double kCos64[] = {0.041666666666666664, -0.0013888888888888887, 2.4801587301584632e-05, -2.755731922139194e-07,
                             2.0876755787301195e-09, -1.1470460288901123e-11, 4.745836627734505e-14};
// (cos(r) - 1 + r²/2) / r⁴ in r²
// clang-format on

/// Arithmetic on one float type.
class Kit {
 public:
  Kit(DType type, const BindValue& bind, bool scales = false)
      : type_(type),
        int_((type.bits == 64 ? kI64 : kI32).with_lanes(type.lanes)),
        w_(type.bits == 64 ? kWidth64 : kWidth32),
        bind_(bind),
        scales_(scales && type.bits == 32 && (type.lanes == 4 || type.lanes == 8 || type.lanes == 16)),
        scalar_of_vectors_(scales && type.bits == 32 && type.lanes == 1) {}

  const Width& width() const { return w_; }
  bool wide() const { return type_.bits == 64; }
  Expr value(double x) const { return constant(x, type_); }
  Expr number(int64_t x) const {
    Expr scalar = int_imm(x, int_.element());
    return int_.lanes == 1 ? scalar : broadcast(scalar, int_.lanes);
  }
  Expr fma(Expr a, Expr b, Expr c) const { return bind_(math("fma", {std::move(a), std::move(b), std::move(c)})); }
  Expr bound(Expr e) const { return bind_(std::move(e)); }
  Expr bits(Expr x) const { return bind_(call("bitcast", {std::move(x)}, int_)); }
  Expr from_bits(Expr x) const { return bind_(call("bitcast", {std::move(x)}, type_)); }
  Expr infinity() const { return from_bits(number(w_.infinity)); }
  Expr nan() const { return from_bits(number(w_.nan)); }
  Expr absolute(Expr x) const { return bind_(math("abs", {std::move(x)})); }
  Expr shift_left(Expr x, int by) const { return bind_(binary(BinaryOp::kShl, std::move(x), number(by))); }
  Expr shift_right(Expr x, int by) const { return bind_(binary(BinaryOp::kShr, std::move(x), number(by))); }
  /// NaNs pass through both.
  Expr at_least(Expr x, double low) const { return bind_(select(lt(x, value(low)), value(low), x)); }
  Expr at_most(Expr x, double high) const { return bind_(select(lt(value(high), x), value(high), x)); }
  Expr with_sign_of(Expr magnitude, const Expr& x) const {
    const int64_t sign_bit = wide() ? INT64_MIN : int64_t{INT32_MIN};
    Expr sign = bind_(binary(BinaryOp::kBitAnd, bits(x), number(sign_bit)));
    return from_bits(bind_(binary(BinaryOp::kBitOr, bits(std::move(magnitude)), sign)));
  }
  Expr polynomial(std::span<const double> coefficients, const Expr& x) const {
    Expr sum = value(coefficients.back());
    for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, value(coefficients[i]));
    return sum;
  }

  /// The same in half the time, where what follows waits for it: even and odd powers side by side.
  Expr quick_polynomial(std::span<const double> coefficients, const Expr& x, const Expr& square) const {
    const auto every_other = [&](size_t first) {
      const size_t n = coefficients.size();
      size_t i = n - 1 - (n - 1 - first) % 2;
      Expr sum = value(coefficients[i]);
      while (i >= first + 2) {
        i -= 2;
        sum = fma(sum, square, value(coefficients[i]));
      }
      return sum;
    };
    Expr even = every_other(0);
    return fma(every_other(1), x, even);
  }

  /// x = n*ln2 + r, where x*log2(e) + magic rounds to a multiple n, plus magic.
  struct Multiple {
    Expr shifted;  // n + magic
    Expr n, r;
  };
  Multiple reduce_to_multiple(const Expr& x, double magic) const {
    Expr shifted = fma(x, value(1.4426950408889634), value(magic));
    Expr n = bind_(shifted - value(magic));
    Expr r = fma(n, value(-w_.ln2_high), x);
    return {shifted, n, fma(n, value(-w_.ln2_low), r)};
  }

  /// x = n*ln2 + r, |r| <= ln2/2, where the low bits of shifted are n + offset.
  Multiple reduce(const Expr& x, int offset) const { return reduce_to_multiple(x, w_.round_magic + offset); }
  /// 2^n where that is a normal number, of shifted with the bias as its offset; n one above the greatest exponent gives
  /// infinity.
  Expr power_of_two(const Expr& shifted) const { return from_bits(shift_left(bits(shifted), w_.mantissa)); }
  /// y * 2^n for any n of a result, rounded once, of shifted with twice the bias as its offset. 2^n itself may be too
  /// large or too small: its part with the sign of `exponent` is taken apart, whose sign is n's, or n is 0.
  Expr times_power_of_two(const Expr& y, const Expr& shifted, const Expr& exponent) const {
    const int apart = wide() ? 100 : 30;
    Expr outer = bind_(select(lt(bits(exponent), number(0)), value(std::exp2(-apart)), value(std::exp2(apart))));
    Expr inner = from_bits(bind_(shift_left(bits(shifted), w_.mantissa) - bits(outer)));
    return bind_(bind_(y * inner) * outer);
  }

  /// One of AVX-512's instructions with a mask, of all lanes.
  Expr masked(std::string_view name, const Expr& x, const Expr& operand) const {
    std::vector<Expr> args = {x, operand, x, Expr((1 << type_.lanes) - 1)};
    if (type_.lanes == 16) args.push_back(Expr(4));  // rounding as it is set
    return bind_(call(fmt::format("llvm.x86.avx512.mask.{}.ps.{}", name, 32 * type_.lanes), std::move(args), type_));
  }
  /// x * 2^floor(n) for any n, rounded once; one instruction, where scales_.
  Expr scaled(const Expr& x, const Expr& n) const { return masked("scalef", x, n); }
  /// x - floor(x), and 0 of infinities; one instruction, where scales_.
  Expr fraction(const Expr& x) const {
    constexpr int kDown = 1;
    return masked("reduce", x, Expr(kDown));
  }

  /// e^r, |r| <= ln2/2
  Expr exp_small(const Expr& r) const {
    Expr q = wide() ? polynomial(kExp64, r) : polynomial(kExp32, r);
    return bind_(fma(q, bind_(r * r), r) + value(1));
  }
  /// Of sixteen powers of two, 2^(i/16), each lane's by the lowest four bits of `which`.
  Expr power_in_sixteenths(const Expr& which) const {
    const auto powers = [&](int first, int n) {
      std::vector<Expr> entries;
      for (int i = first; i < first + n; ++i) entries.push_back(constant(std::exp2(i / 16.0), type_.element()));
      return bind_(shuffle(std::move(entries), first_lanes(n, n)));
    };
    if (type_.lanes == 16) return bind_(call("llvm.x86.avx512.permvar.sf.512", {powers(0, 16), which}, type_));
    const Expr wide = type_.lanes == 8 ? which : bind_(shuffle({which}, first_lanes(8, type_.lanes)));
    const Expr found = bind_(
        call("llvm.x86.avx512.vpermi2var.ps.256", {powers(0, 8), wide, powers(8, 8)}, type_.element().with_lanes(8)));
    return type_.lanes == 8 ? found : bind_(shuffle({found}, first_lanes(type_.lanes, type_.lanes)));
  }
  /// 0, 1, … of n, from 0 again after `period`.
  static std::vector<int> first_lanes(int n, int period) {
    std::vector<int> lanes;
    for (int i = 0; i < n; ++i) lanes.push_back(i % period);
    return lanes;
  }

  /// e^x = 2^floor(n) * 2^(n - floor(n)) * e^r, for multiples n of 1/16. The fraction's power comes out of a table, by
  /// the lowest bits of n + magic. So r is short, and a polynomial of degree 3 suffices.
  /// (Tang: Table-driven implementation of the exponential function in IEEE floating-point arithmetic, 1989.)
  Expr exp_by_table(const Expr& x) const {
    const auto [shifted, n, r] = reduce_to_multiple(x, w_.round_magic / 16);
    const Expr power = power_in_sixteenths(bits(shifted));
    const Expr small = fma(polynomial(kExpSixteenth32, r), bind_(r * r), r);
    return scaled(fma(power, small, power), n);  // which rounds n down
  }
  Expr exp(const Expr& x) const {
    if (scalar_of_vectors_) {
      const Kit four(type_.with_lanes(4), bind_, true);
      return bind_(shuffle({four.exp(bind_(broadcast(x, 4)))}, {0}));
    }
    const Expr inside = at_most(at_least(x, w_.exp_least), w_.exp_greatest);
    if (scales_) return exp_by_table(inside);
    const auto [shifted, n, r] = reduce(inside, 2 * w_.bias);
    return times_power_of_two(exp_small(r), shifted, inside);
  }
  /// 2^x of f32 = 2^n * 2^f for an integer n. Where the machine scales by powers of two, n is floor(x), and this takes
  /// half of exp's instructions. Elsewhere n is the nearest, and a few are less.
  Expr exp2(const Expr& x) const {
    if (scales_) return scaled(polynomial(kExp2Fraction32, fraction(x)), x);
    if (scalar_of_vectors_) {
      const Kit four(type_.with_lanes(4), bind_, true);
      return bind_(shuffle({four.exp2(bind_(broadcast(x, 4)))}, {0}));
    }
    const Expr inside = at_most(at_least(x, kExp2Least32), kExp2Greatest32);
    const Expr magic = value(w_.round_magic + 2 * w_.bias);
    const Expr shifted = bind_(inside + magic);
    const Expr n = bind_(shifted - magic);
    return times_power_of_two(polynomial(kExp2Nearest32, bind_(inside - n)), shifted, inside);
  }
  /// The same of an x that is at most 0. What is less than the least normal number is 0.
  Expr exp2_at_most_1(const Expr& x) const {
    if (scales_ || scalar_of_vectors_) return exp2(x);
    const Expr inside = at_least(x, -w_.bias);  // whose power is 0
    const Expr magic = value(w_.round_magic + w_.bias);
    const Expr shifted = bind_(inside + magic);
    const Expr n = bind_(shifted - magic);
    return bind_(polynomial(kExp2Nearest32, bind_(inside - n)) * power_of_two(shifted));
  }
  /// e^x for x that leaves 2^n normal, or infinite.
  Expr exp_medium(const Expr& x) const {
    const auto [shifted, n, r] = reduce(x, w_.bias);
    return scales_ ? scaled(exp_small(r), n) : bind_(exp_small(r) * power_of_two(shifted));
  }

  Expr sigmoid(const Expr& x) const {
    Expr minus_x = bind_(value(0) - x);
    Expr e = exp_medium(at_most(at_least(minus_x, wide() ? -708 : -87), w_.exp_greatest));
    return bind_(value(1) / bind_(value(1) + e));
  }

  /// (e^2a - 1) / (e^2a + 1) for a = |x|, from m = e^2a - 1.
  Expr tanh(const Expr& x) const {
    Expr a = at_most(absolute(x), wide() ? 20 : 9.1);
    Expr m = expm1(bind_(a + a));
    return with_sign_of(bind_(m / bind_(m + value(2))), x);
  }

  /// x = 2^e (1+f), sqrt(1/2) <= 1+f < sqrt(2); ln(x) = e ln2 + ln(1+f).
  Expr log(const Expr& x) const {
    const int up = w_.mantissa;
    Expr tiny = bind_(lt(x, value(w_.least_normal)));
    Expr scaled = bind_(select(tiny, bind_(x * value(wide() ? 4503599627370496.0 : 8388608.0)), x));
    Expr pattern = bits(scaled);
    Expr exponent = shift_right(bind_(pattern - number(w_.sqrt_half)), w_.mantissa);
    Expr f = bind_(from_bits(bind_(pattern - shift_left(exponent, w_.mantissa))) - value(1));
    Expr e = bind_(cast(type_, bind_(exponent + select(tiny, number(-up), number(0)))));
    Expr rest;
    if (wide()) {
      // ln(1+f) = 2 atanh(s), s = f/(2+f): f - (f²/2 - s (f²/2 + 2 z R(z))), z = s²
      Expr s = bind_(f / bind_(f + value(2)));
      Expr z = bind_(s * s);
      Expr square = bind_(bind_(f * f) * value(0.5));
      Expr series = bind_(bind_(polynomial(kAtanh64, z) * z) * value(2));
      rest = fma(s, bind_(square + series), bind_(value(0) - square));
    } else {
      Expr square = bind_(f * f);
      Expr cubic = bind_(bind_(square * f) * polynomial(kLog32, f));
      rest = fma(square, value(-0.5), cubic);
    }
    rest = fma(e, value(w_.ln2_low), rest);
    Expr result = fma(e, value(w_.ln2_high), bind_(f + rest));
    result = bind_(select(lt(x, infinity()), result, x));  // infinity and NaN
    Expr at_zero =
        select(eq(x, value(0)), from_bits(number(w_.infinity | (wide() ? INT64_MIN : int64_t{INT32_MIN}))), nan());
    return bind_(select(le(x, value(0)), at_zero, result));
  }

  /// e^y - 1, from y = n ln2 + r:  2^n (e^r - 1) + (2^n - 1), for y that leaves 2^n normal.
  Expr expm1(const Expr& y) const {
    const auto [shifted, n, r] = reduce(y, w_.bias);
    Expr q = wide() ? polynomial(kExp64, r) : polynomial(kExpm32, r);
    Expr small = fma(q, bind_(r * r), r);
    Expr scale = scales_ ? scaled(value(1), n) : power_of_two(shifted);
    return fma(scale, small, bind_(scale - value(1)));
  }

  Expr erf(const Expr& x) const {
    Expr a = absolute(x);
    if (!wide()) {
      // 1 - e^ln(erfc(a)) for all a: small results keep their relative error, since ln(erfc(a)) has it.
      a = at_most(a, 3.95);
      Expr rest = bind_(quick_polynomial(kErfc32, a, bind_(a * a)) * a);
      Expr logarithm = bind_(value(0) - fma(a, value(kErfcSlope32), rest));
      return with_sign_of(absolute(expm1(logarithm)), x);
    }
    Expr square = bind_(x * x);
    Expr near = fma(x, polynomial(kErfSmall64, square), x);
    Expr b = at_most(a, 6);
    Expr middle = polynomial(kErfMiddle64, bind_((b - value(1.75)) * value(1 / 0.75)));
    Expr large = polynomial(kErfLarge64, bind_((b - value(4.25)) * value(1 / 1.75)));
    Expr logarithm = bind_(select(lt(b, value(2.5)), middle, large));
    Expr far = with_sign_of(bind_(value(1) - exp_medium(at_most(logarithm, 0))), x);
    return bind_(select(lt(a, value(1)), near, far));
  }

  Expr sqrt(const Expr& x) const { return bind_(math("sqrt", {x})); }
  Expr rsqrt(const Expr& x) const { return bind_(value(1) / sqrt(x)); }

  /// In f64: sin(x + quarter_turns * pi/2).
  Expr sine64(const Expr& x, int quarter_turns, double limit) const {
    FETTLE_CHECK(wide());
    Expr inside = bind_(select(lt(absolute(x), value(limit)), x, nan()));
    Expr shifted = fma(inside, value(0.6366197723675814), value(w_.round_magic));
    Expr n = bind_(shifted - value(w_.round_magic));
    Expr r = fma(n, value(-1.5707963267948966), inside);
    r = fma(n, value(-6.123233995736766e-17), r);
    Expr quadrant = bind_(bits(shifted) + number(quarter_turns));
    Expr z = bind_(r * r);
    Expr sine = fma(bind_(z * r), polynomial(kSin64, z), r);
    Expr cosine = fma(bind_(z * z), polynomial(kCos64, z), fma(z, value(-0.5), value(1)));
    Expr is_cosine = ne(bind_(binary(BinaryOp::kBitAnd, quadrant, number(1))), number(0));
    Expr wave = bits(bind_(select(is_cosine, cosine, sine)));
    Expr sign = shift_left(bind_(binary(BinaryOp::kBitAnd, quadrant, number(2))), 62);
    Expr result = from_bits(bind_(binary(BinaryOp::kBitXor, wave, sign)));
    return bind_(select(lt(absolute(x), value(1e-150)), quarter_turns == 0 ? x : value(1), result));  // also keeps -0
  }

  /// In f64; exp's result may lie far outside of f32.
  Expr pow64(const Expr& x, const Expr& y) const {
    FETTLE_CHECK(wide());
    Expr a = absolute(x);
    Expr magnitude = exp(bind_(y * log(a)));
    magnitude = bind_(select(eq(a, value(1)), value(1), magnitude));
    Expr whole = bind_(math("trunc", {y}));
    Expr half = bind_(y * value(0.5));
    Expr is_odd = logical_and(eq(whole, y), ne(math("trunc", {half}), half));
    Expr flips = logical_and(lt(bits(x), number(0)), is_odd);
    Expr signed_result = bind_(select(flips, bind_(value(0) - magnitude), magnitude));
    Expr undefined = logical_and(logical_and(lt(x, value(0)), lt(a, infinity())), ne(whole, y));
    signed_result = bind_(select(undefined, nan(), signed_result));
    return bind_(select(eq(y, value(0)), value(1), signed_result));
  }

 private:
  DType type_, int_;
  const Width& w_;
  const BindValue& bind_;
  bool scales_;
  bool scalar_of_vectors_;  // one number, on a machine that scales vectors
};

/// The value of a constant, also when broadcast.
const double* as_float(const Expr& e) {
  if (const auto* imm = e.as<FloatImmNode>()) return &imm->value;
  if (const auto* spread = e.as<BroadcastNode>()) return as_float(spread->value);
  return nullptr;
}

/// x^p for the exponents that models use; null for others.
Expr constant_power(const Kit& kit, const Expr& x, double p) {
  if (p == 0) return kit.value(1);
  if (p == 1) return x;
  if (p == 2) return kit.bound(x * x);
  if (p == 3) return kit.bound(kit.bound(x * x) * x);
  if (p == 0.5) return kit.sqrt(x);
  if (p == -0.5) return kit.rsqrt(x);
  if (p == -1) return kit.bound(kit.value(1) / x);
  return nullptr;
}

/// x, where e^exponent is 2^x: the exponent is x * ln(2). Else null.
Expr power_of_two_of(const Expr& exponent) {
  const auto* product = exponent.as<BinaryNode>();
  const double* factor = product && product->op == BinaryOp::kMul ? as_float(product->b) : nullptr;
  return factor && static_cast<float>(*factor) == std::numbers::ln2_v<float> ? product->a : nullptr;
}

/// Whether it is at most 0 wherever it is a number: select(0 < x, 0, x).
bool is_at_most_0(const Expr& e) {
  const auto* chosen = e.as<SelectNode>();
  const auto* compared = chosen ? chosen->condition.as<BinaryNode>() : nullptr;
  const auto is_0 = [](const Expr& x) {
    const double* number = as_float(x);
    return number && *number == 0;
  };
  return compared && compared->op == BinaryOp::kLt && is_0(compared->a) && is_0(chosen->if_true) &&
         structural_equal(compared->b, chosen->if_false);
}

/// x^n of integers for a constant n >= 0, by squaring; null for others.
Expr constant_integer_power(const Expr& x, const Expr& n, const BindValue& bind) {
  const int64_t* exponent = as_int(n);
  if (!exponent || *exponent < 0) return nullptr;
  Expr result, square = bind(x);
  for (int64_t left = *exponent; left != 0; left >>= 1) {
    if (left & 1) result = result ? bind(result * square) : square;
    if (left > 1) square = bind(square * square);
  }
  return result ? result : constant(1, x.dtype());
}

}  // namespace

bool is_expanded_math(std::string_view name) {
  for (const char* known : {"exp", "log", "tanh", "erf", "sigmoid", "rsqrt", "sin", "cos", "pow"})
    if (name == known) return true;
  return false;
}

Expr expand_math_function(std::string_view name, const std::vector<Expr>& args, const BindValue& bind, bool scales) {
  if (!is_expanded_math(name) || args.size() != (name == "pow" ? 2 : 1)) return nullptr;
  if (name == "pow" && args[0].dtype().is_int()) return constant_integer_power(args[0], args[1], bind);
  if (!args[0].dtype().is_float()) return nullptr;
  const DType type = args[0].dtype();
  const bool small = type.bits == 16;
  const bool in_double = name == "sin" || name == "cos" || name == "pow";
  std::vector<Expr> in;
  const DType work = (small ? kF32 : type.element()).with_lanes(type.lanes);
  if (name == "exp" && type.bits == 32)
    if (const Expr x = power_of_two_of(args[0])) {
      const Kit kit(work, bind, scales);
      return is_at_most_0(x) ? kit.exp2_at_most_1(bind(x)) : kit.exp2(bind(x));
    }
  for (const Expr& arg : args) in.push_back(bind(small ? cast(work, arg) : arg));
  const Expr& x = in[0];
  const auto finished = [&](Expr e) { return e.dtype() == type ? e : bind(cast(type, std::move(e))); };

  const Kit kit(work, bind, scales);
  if (name == "exp") return finished(kit.exp(x));
  if (name == "log") return finished(kit.log(x));
  if (name == "tanh") return finished(kit.tanh(x));
  if (name == "erf") return finished(kit.erf(x));
  if (name == "sigmoid") return finished(kit.sigmoid(x));
  if (name == "rsqrt") return finished(kit.rsqrt(x));
  FETTLE_CHECK(in_double);
  if (name == "pow")
    if (const double* p = as_float(args[1]))
      if (Expr simple = constant_power(kit, x, *p)) return finished(simple);
  const DType wide = kF64.with_lanes(type.lanes);
  const Kit kit64(wide, bind);
  const auto widened = [&](const Expr& e) { return e.dtype() == wide ? e : bind(cast(wide, e)); };
  if (name == "pow") return finished(kit64.pow64(widened(x), widened(in[1])));
  // The reduction loses what the argument's magnitude takes from 2^-107.
  const double limit = type.bits == 64 ? 1099511627776.0 : 1125899906842624.0;
  return finished(kit64.sine64(widened(x), name == "cos" ? 1 : 0, limit));
}

}  // namespace fettle
