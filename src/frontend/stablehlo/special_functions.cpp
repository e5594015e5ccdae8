#include "frontend/stablehlo/special_functions.h"

#include <cmath>

namespace fettle::stablehlo {
namespace {

// In f64, and back.
template <typename F>
Value* in_double(const Elements& e, Value* x, const F& function) {
  return e.cast(function(e.cast(x, kF64)), x->dtype());
}

}  // namespace

// Cephes (Moshier 1989), ndtr: 1 - erf near zero; e^(-x²) times rational functions beyond 1 and 8.
Value* SpecialFunctions::erfc(Value* x) const {
  return in_double(e_, x, [&](Value* z) {
    Value *a = e_.abs(z), *one = e_.number(1, z);
    Value* near = e_.sub(one, e_.op("Erf", {z}));
    Value* clipped = e_.least(e_.greatest(a, one), e_.number(28, z));
    Value* p = sum(clipped, {2.46196981473530512524E-10, 5.64189564831068821977E-1, 7.46321056442269912687E0,
                             4.86371970985681366614E1, 1.96520832956077098242E2, 5.26445194995477358631E2,
                             9.34528527171957607540E2, 1.02755188689515710272E3, 5.57535335369399327526E2});
    Value* q = sum(clipped, {1, 1.32281951154744992508E1, 8.67072140885989742329E1, 3.54937778887819891062E2,
                             9.75708501743205489753E2, 1.82390916687909736289E3, 2.24633760818710981792E3,
                             1.65666309194161350182E3, 5.57535340817727675546E2});
    Value* r = sum(clipped, {5.64189583547755073984E-1, 1.27536670759978104416E0, 5.01905042251180477414E0,
                             6.16021097993053585195E0, 7.40974269950448939160E0, 2.97886665372100240670E0});
    Value* s = sum(clipped, {1, 2.26052863220117276590E0, 9.39603524938001434673E0, 1.20489539808096656605E1,
                             1.70814450747565897222E1, 9.60896809063285878198E0, 3.36907645100081516050E0});
    Value* ratio = e_.choose(e_.less(clipped, e_.number(8, z)), e_.div(p, q), e_.div(r, s));
    Value* tail = e_.mul(e_.exp(e_.neg(e_.mul(clipped, clipped))), ratio);
    Value* far = e_.choose(e_.less(z, e_.number(0, z)), e_.sub(e_.number(2, z), tail), tail);
    // NaN is neither.
    return e_.choose(e_.greater(a, one), far, near);
  });
}

// Giles, "Approximating the erfinv function" (GPU Computing Gems 2, 2011).
Value* SpecialFunctions::erf_inv(Value* x) const {
  const auto start = [&](Value* z) {
    Value* w = e_.neg(e_.log1p(e_.neg(e_.mul(z, z))));
    Value* is_near = e_.less(w, e_.number(5, z));
    Value* u = e_.sub(w, e_.number(2.5, z));
    Value* near = sum(u, {2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
                          -0.00125372503, -0.00417768164, 0.246640727, 1.50140941});
    Value* v = e_.sub(e_.sqrt(e_.choose(is_near, e_.number(9, z), w)), e_.number(3, z));
    Value* far = sum(v, {-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
                         0.00943887047, 1.00167406, 2.83297682});
    return e_.mul(e_.choose(is_near, near, far), z);
  };
  Value* is_end = e_.equal(e_.abs(x), e_.number(1, x));
  Value* infinite = e_.mul(x, e_.number(INFINITY, x));
  if (x->dtype() != kF64) return e_.choose(is_end, infinite, start(x));
  // f(y) = erfc(y) - (1 - a) of a = |x|, which loses nothing near 1.
  Value* a = e_.abs(x);
  Value* y = start(a);
  for (int step = 0; step < 2; ++step) {
    Value* error = e_.sub(e_.sub(e_.number(1, x), a), erfc(y));
    Value* slope = e_.mul(e_.number(2 / std::sqrt(M_PI), x), e_.exp(e_.neg(e_.mul(y, y))));
    Value* newton = e_.div(error, slope);
    y = e_.sub(y, e_.div(newton, e_.add(e_.number(1, x), e_.mul(y, newton))));
  }
  return e_.choose(is_end, infinite, e_.with_sign(y, x));
}

// Lanczos' approximation with g = 7, and the reflection formula below a half.
Value* SpecialFunctions::lgamma(Value* x) const {
  return in_double(e_, x, [&](Value* given) {
    constexpr double kLanczos[] = {676.520368121885098567009190444019,  -1259.13921672240287047156078755283,
                                   771.3234287776530788486528258894,    -176.61502916214059906584551354,
                                   12.507343278686904814458936853,      -0.13857109526572011689554707,
                                   9.984369578019570859563e-6,          1.50563273514931155834e-7};
    Value *one = e_.number(1, given), *half = e_.number(0.5, given);
    Value* reflects = e_.less(given, half);
    Value* z = e_.sub(e_.choose(reflects, e_.sub(one, given), given), one);
    Value* a = e_.number(0.99999999999980993227684700473478, given);
    for (int k = 0; k < 8; ++k) a = e_.add(a, e_.div(e_.number(kLanczos[k], z), e_.add(z, e_.number(k + 1, z))));
    Value* t = e_.add(z, e_.number(7.5, z));
    Value* made = e_.sub(e_.mul(e_.add(z, half), e_.log(t)), t);
    made = e_.add(e_.add(made, e_.number(0.5 * std::log(2 * M_PI), z)), e_.log(a));
    Value* part = e_.abs(e_.sub(given, e_.op("Round", {given})));  // |sin πx| is that of this
    Value* sine = e_.op("Sin", {e_.mul(part, e_.number(M_PI, z))});
    Value* mirrored = e_.sub(e_.sub(e_.number(std::log(M_PI), z), e_.log(sine)), made);
    Value* infinite = e_.number(INFINITY, z);
    Value* is_pole = e_.both(reflects, e_.equal(part, e_.number(0, z)));
    Value* result = e_.choose(is_pole, infinite, e_.choose(reflects, mirrored, made));
    return e_.choose(e_.equal(e_.abs(given), infinite), infinite, result);
  });
}

// ψ(x) = ψ(x + 10) - Σ 1 / (x + k), and Stirling's series there; ψ(1 - x) - π cot πx below zero.
Value* SpecialFunctions::digamma(Value* x) const {
  return in_double(e_, x, [&](Value* given) {
    Value *zero = e_.number(0, given), *one = e_.number(1, given);
    Value* reflects = e_.less(given, zero);
    Value* z = e_.choose(reflects, e_.sub(one, given), given);
    Value* below = zero;
    for (int k = 0; k < 10; ++k) below = e_.add(below, e_.div(one, e_.add(z, e_.number(k, z))));
    Value* y = e_.add(z, e_.number(10, z));
    Value* square = e_.div(one, e_.mul(y, y));
    Value* series = e_.mul(square, sum(square, {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252,
                                                -1.0 / 120, 1.0 / 12}));
    Value* made = e_.sub(e_.sub(e_.sub(e_.log(y), e_.div(e_.number(0.5, y), y)), series), below);
    Value* part = e_.sub(given, e_.op("Round", {given}));
    Value* angle = e_.mul(part, e_.number(M_PI, z));
    Value* cotangent = e_.div(e_.op("Cos", {angle}), e_.op("Sin", {angle}));
    Value* mirrored = e_.sub(made, e_.mul(e_.number(M_PI, z), cotangent));
    Value* result = e_.choose(reflects, mirrored, made);
    Value* is_pole = e_.both(e_.op("LessOrEqual", {given, zero}), e_.equal(part, zero));
    return e_.choose(is_pole, e_.number(NAN, z), e_.choose(e_.equal(given, e_.number(INFINITY, z)), given, result));
  });
}

// Nine terms, the integral of the rest, and corrections by Bernoulli numbers.
Value* SpecialFunctions::zeta(Value* s_given, Value* q_given) const {
  Value *s = e_.cast(s_given, kF64), *q = e_.cast(q_given, kF64);
  constexpr double kFactors[] = {12.0,
                                 -720.0,
                                 30240.0,
                                 -1209600.0,
                                 47900160.0,
                                 -1.8924375803183791606e9,
                                 7.47242496e10,
                                 -2.950130727918164224e12,
                                 1.1646782814350067249e14,
                                 -4.5979787224074726105e15,
                                 1.8152105401943546773e17,
                                 -7.1661652561756670113e18};
  Value *zero = e_.number(0, s), *one = e_.number(1, s);
  const auto powered = [&](Value* a) { return e_.op("Pow", {a, e_.neg(s)}); };
  Value* total = powered(q);
  for (int k = 1; k < 9; ++k) total = e_.add(total, powered(e_.add(q, e_.number(k, q))));
  Value* a = e_.add(q, e_.number(9, q));
  Value* p = powered(a);
  total = e_.add(total, e_.div(e_.mul(p, a), e_.sub(s, one)));
  total = e_.add(total, e_.mul(p, e_.number(0.5, s)));
  Value *factor = s, *power = e_.div(p, a), *square = e_.mul(a, a);
  for (int j = 1; j <= 12; ++j) {
    total = e_.add(total, e_.div(e_.mul(factor, power), e_.number(kFactors[j - 1], s)));
    factor = e_.mul(factor, e_.mul(e_.add(s, e_.number(2 * j - 1, s)), e_.add(s, e_.number(2 * j, s))));
    power = e_.div(power, square);
  }
  // What grows without bound times what vanishes is nothing.
  Value *infinite = e_.number(INFINITY, s), *none = e_.number(NAN, s);
  total = e_.choose(e_.equal(s, infinite), powered(q), total);
  const auto is_whole = [&](Value* x) { return e_.equal(e_.floor(x), x); };
  Value* is_low = e_.op("LessOrEqual", {q, zero});
  Value* result = e_.choose(e_.both(is_low, e_.negation(is_whole(s))), none, total);
  result = e_.choose(e_.both(is_low, is_whole(q)), infinite, result);
  result = e_.choose(e_.less(s, one), none, result);
  return e_.cast(e_.choose(e_.equal(s, one), infinite, result), s_given->dtype());
}

// ψ of order n is (-1)^(n + 1) n! ζ(n + 1, x).
Value* SpecialFunctions::polygamma(Value* n_given, Value* x_given) const {
  Value *n = e_.cast(n_given, kF64), *x = e_.cast(x_given, kF64);
  Value *zero = e_.number(0, n), *one = e_.number(1, n), *next = e_.add(n, one);
  Value* size = e_.mul(e_.exp(lgamma(next)), zeta(next, x));
  Value* half = e_.mul(n, e_.number(0.5, n));
  Value* is_even = e_.equal(e_.floor(half), half);
  Value* made = e_.choose(is_even, e_.neg(size), size);
  made = e_.choose(e_.equal(n, zero), digamma(x), made);
  Value* is_order = e_.both(e_.op("GreaterOrEqual", {n, zero}), e_.equal(e_.floor(n), n));
  return e_.cast(e_.choose(is_order, made, e_.number(NAN, n)), n_given->dtype());
}

// e^-|x| I1(x) = 1/π ∫ e^(|x| (cos θ - 1)) cos θ dθ over half a turn: of a periodic function the trapezoidal rule is
// exact but for e^-(N² / 2|x|).
Value* SpecialFunctions::bessel_i1e(Value* x) const {
  return in_double(e_, x, [&](Value* given) {
    constexpr int kSteps = 32;
    constexpr double kFar = 50;
    Value* a = e_.abs(given);
    Value* near_x = e_.least(a, e_.number(kFar, a));
    Value* near = e_.number(0, a);
    for (int k = 0; k <= kSteps; ++k) {
      const double angle = M_PI * k / kSteps, weight = (k == 0 || k == kSteps ? 0.5 : 1.0) / kSteps;
      if (2 * k == kSteps) continue;  // the cosine is zero
      Value* factor = e_.exp(e_.mul(near_x, e_.number(std::cos(angle) - 1, a)));
      near = e_.add(near, e_.mul(factor, e_.number(weight * std::cos(angle), a)));
    }
    // Σ Π (4 - (2k - 1)²) / (k! (-8x)^k), the highest term first.
    Value* far_x = e_.greatest(a, e_.number(kFar, a));
    Value* inverse = e_.div(e_.number(1, a), far_x);
    Value* series = e_.number(1, a);
    for (int k = 12; k >= 1; --k) {
      const double odd = 2 * k - 1, ratio = -(4 - odd * odd) / (8.0 * k);
      series = e_.add(e_.number(1, a), e_.mul(e_.mul(series, inverse), e_.number(ratio, a)));
    }
    Value* far = e_.mul(series, e_.sqrt(e_.mul(inverse, e_.number(0.5 / M_PI, a))));
    Value* made = e_.choose(e_.less(a, e_.number(kFar, a)), near, far);
    return e_.choose(e_.is_nan(given), given, e_.with_sign(made, given));
  });
}

}  // namespace fettle::stablehlo
