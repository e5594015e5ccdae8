// Functions by the names that CUDA has for them, by formulas over the loop language's.

#include <algorithm>
#include <cmath>

#include "frontend/comprehension/expression.h"
#include "graph/elementary.h"

namespace fettle::comprehension {
namespace {

using namespace elementary;
using Args = std::vector<Expr>;

Expr number(double value, const Expr& like) { return constant(value, like.dtype()); }
Expr infinity(const Expr& like) { return number(INFINITY, like); }
Expr is_nan(const Expr& x) { return call("isnan", {x}, kBool); }
Expr negative(const Expr& x) { return x * number(-1, x); }

template <const char* Name>
Expr same(const Args& a) {
  return math(Name, {a[0]});
}
// Text as a template's argument.
#define FETTLE_SAME(name)               \
  constexpr char name##_text[] = #name; \
  constexpr auto name##_of = same<name##_text>;
FETTLE_SAME(exp)
FETTLE_SAME(log)
FETTLE_SAME(sqrt)
FETTLE_SAME(rsqrt)
FETTLE_SAME(sin)
FETTLE_SAME(cos)
FETTLE_SAME(tanh)
FETTLE_SAME(erf)
FETTLE_SAME(floor)
FETTLE_SAME(ceil)
FETTLE_SAME(trunc)
FETTLE_SAME(abs)
#undef FETTLE_SAME

// NaN only where both are.
Expr greater_of(const Expr& a, const Expr& b) { return select(is_nan(a), b, select(is_nan(b), a, max(a, b))); }
Expr lesser_of(const Expr& a, const Expr& b) { return select(is_nan(a), b, select(is_nan(b), a, min(a, b))); }

// Towards zero; what is left has the dividend's sign.
Expr fmod_of(const Args& a) { return a[0] - math("trunc", {a[0] / a[1]}) * a[1]; }
Expr remainder_of(const Args& a) { return a[0] - math("round", {a[0] / a[1]}) * a[1]; }
Expr away_from_zero(const Args& a) {
  const Expr x = math("abs", {a[0]}), whole = math("floor", {x});
  const Expr rounded = select(lt(x - whole, number(0.5, x)), whole, whole + number(1, x));
  return select(lt(a[0], number(0, x)), negative(rounded), rounded);
}

Expr with_sign(const Expr& size, const Expr& sign) {
  // 1 / -0 is below zero, as -0 is not.
  const Expr zero = number(0, sign);
  const Expr is_below = logical_or(lt(sign, zero), logical_and(eq(sign, zero), lt(number(1, sign) / sign, zero)));
  const Expr x = math("abs", {size});
  return select(is_below, negative(x), x);
}

// Without overflow: the largest in magnitude is taken out.
Expr norm(const Args& a) {
  Expr largest = math("abs", {a[0]});
  for (size_t k = 1; k < a.size(); ++k) largest = max(largest, math("abs", {a[k]}));
  const Expr scale =
      select(logical_or(eq(largest, number(0, largest)), eq(largest, infinity(largest))), number(1, largest), largest);
  Expr sum;
  for (const Expr& x : a) {
    const Expr part = x / scale;
    sum = sum ? sum + part * part : part * part;
  }
  return scale * math("sqrt", {sum});
}
Expr reciprocal_norm(const Args& a) { return number(1, a[0]) / norm(a); }

Expr cube_root(const Expr& x) {
  const Expr size = math("abs", {x}), zero = number(0, x);
  const Expr safe = select(gt(size, zero), size, number(1, x));
  const Expr guess = math("exp", {math("log", {safe}) * number(1.0 / 3, x)});
  // One step of Newton's: what is rounded in exp and log is gone.
  const Expr root = guess - (guess - safe / (guess * guess)) * number(1.0 / 3, x);
  const Expr whole = select(eq(size, infinity(x)), size, root);
  const Expr value = select(gt(size, zero), whole, size);
  return select(lt(x, zero), negative(value), value);
}

Expr exp_less_one(const Expr& x) {
  // Kahan's: (u - 1) x / log u, where u = exp x.
  const Expr one = number(1, x), u = math("exp", {x}), less = u - one;
  const Expr log_u = math("log", {select(gt(u, number(0, x)), u, one)});
  const Expr is_usual = logical_and(ne(log_u, number(0, x)), lt(u, infinity(x)));
  const Expr value = less * x / select(is_usual, log_u, one);
  return select(eq(u, one), x, select(is_usual, value, less));
}
Expr log_of_one_more(const Expr& x) {
  // Likewise: log(u) x / (u - 1), where u = 1 + x.
  const Expr one = number(1, x), u = one + x, more = u - one;
  const Expr is_usual = logical_and(ne(more, number(0, x)), lt(u, infinity(x)));
  return select(eq(u, one), x, select(is_usual, math("log", {u}) * x / select(is_usual, more, one), math("log", {u})));
}

Expr arc_tangent_2(const Args& a) {
  const Expr &y = a[0], &x = a[1];
  const Expr zero = number(0, x);
  const Expr both = logical_and(eq(math("abs", {x}), infinity(x)), eq(math("abs", {y}), infinity(x)));
  const Expr slope = select(both, number(1, x), math("abs", {y}) / select(eq(x, zero), number(1, x), math("abs", {x})));
  const Expr near = select(eq(x, zero), select(eq(y, zero), zero, number(M_PI_2, x)), arc_tangent(slope));
  const Expr is_left = lt(with_sign(number(1, x), x), zero);
  return with_sign(select(is_left, number(M_PI, x) - near, near), y);
}

// What is left of a whole turn, so that large angles keep their digits.
Expr half_turns(const Expr& x) { return x - math("floor", {x * number(0.5, x)}) * number(2, x); }

constexpr Builtin kBuiltins[] = {
    {"acos", 1, [](const Args& a) { return arc_cosine(a[0]); }},
    {"acosh", 1, [](const Args& a) { return area_cosine(a[0]); }},
    {"asin", 1, [](const Args& a) { return arc_sine(a[0]); }},
    {"asinh", 1, [](const Args& a) { return area_sine(a[0]); }},
    {"atan", 1, [](const Args& a) { return arc_tangent(a[0]); }},
    {"atan2", 2, arc_tangent_2},
    {"atanh", 1, [](const Args& a) { return area_tangent(a[0]); }},
    {"cbrt", 1, [](const Args& a) { return cube_root(a[0]); }},
    {"ceil", 1, ceil_of},
    {"copysign", 2, [](const Args& a) { return with_sign(a[0], a[1]); }},
    {"cos", 1, cos_of},
    {"cosh", 1, [](const Args& a) { return hyperbolic_cosine(a[0]); }},
    {"cospi", 1, [](const Args& a) { return math("cos", {half_turns(a[0]) * number(M_PI, a[0])}); }},
    {"cyl_bessel_i0", 1, nullptr},
    {"cyl_bessel_i1", 1, nullptr},
    {"erf", 1, erf_of},
    {"erfc", 1, nullptr},
    {"erfcinv", 1, nullptr},
    {"erfcx", 1, nullptr},
    {"erfinv", 1, nullptr},
    {"exp", 1, exp_of},
    {"exp10", 1, [](const Args& a) { return math("pow", {number(10, a[0]), a[0]}); }},
    {"exp2", 1, [](const Args& a) { return math("pow", {number(2, a[0]), a[0]}); }},
    {"expm1", 1, [](const Args& a) { return exp_less_one(a[0]); }},
    {"abs", 1, abs_of},
    {"fabs", 1, abs_of},
    {"fdim", 2, [](const Args& a) { return select(le(a[0], a[1]), number(0, a[0]), a[0] - a[1]); }},
    {"fdivide", 2, [](const Args& a) { return a[0] / a[1]; }},
    {"floor", 1, floor_of},
    {"fma", 3, [](const Args& a) { return math("fma", {a[0], a[1], a[2]}); }},
    {"fmax", 2, [](const Args& a) { return greater_of(a[0], a[1]); }},
    {"fmin", 2, [](const Args& a) { return lesser_of(a[0], a[1]); }},
    {"fmod", 2, fmod_of},
    {"hypot", 2, norm},
    {"j0", 1, nullptr},
    {"j1", 1, nullptr},
    {"lgamma", 1, nullptr},
    {"log", 1, log_of},
    {"log10", 1, [](const Args& a) { return math("log", {a[0]}) * number(M_LOG10E, a[0]); }},
    {"log1p", 1, [](const Args& a) { return log_of_one_more(a[0]); }},
    {"log2", 1, [](const Args& a) { return math("log", {a[0]}) * number(M_LOG2E, a[0]); }},
    {"logb", 1, nullptr},
    {"nextafter", 2, nullptr},
    {"norm3d", 3, norm},
    {"norm4d", 4, norm},
    {"normcdf", 1, nullptr},
    {"normcdfinv", 1, nullptr},
    {"pow", 2, [](const Args& a) { return math("pow", {a[0], a[1]}); }},
    {"rcbrt", 1, [](const Args& a) { return number(1, a[0]) / cube_root(a[0]); }},
    {"remainder", 2, remainder_of},
    {"rhypot", 2, reciprocal_norm},
    {"rnorm3d", 3, reciprocal_norm},
    {"rnorm4d", 4, reciprocal_norm},
    {"round", 1, away_from_zero},
    {"rsqrt", 1, rsqrt_of},
    {"sigmoid", 1, [](const Args& a) { return math("sigmoid", {a[0]}); }},
    {"sin", 1, sin_of},
    {"sinh", 1, [](const Args& a) { return hyperbolic_sine(a[0]); }},
    {"sinpi", 1, [](const Args& a) { return math("sin", {half_turns(a[0]) * number(M_PI, a[0])}); }},
    {"sqrt", 1, sqrt_of},
    {"tan", 1, [](const Args& a) { return tangent(a[0]); }},
    {"tanh", 1, tanh_of},
    {"tgamma", 1, nullptr},
    {"trunc", 1, trunc_of},
    {"y0", 1, nullptr},
    {"y1", 1, nullptr},
};

}  // namespace

const Builtin* find_builtin(std::string_view name) {
  const auto found = std::ranges::find(kBuiltins, name, &Builtin::name);
  return found == std::end(kBuiltins) ? nullptr : found;
}

}  // namespace fettle::comprehension
