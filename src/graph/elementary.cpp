#include "graph/elementary.h"

#include <cmath>
#include <initializer_list>

namespace fettle::elementary {
namespace {

Expr named(const char* name, const Expr& x) { return math(name, {x}); }
Expr number(double value, const Expr& like) { return constant(value, like.dtype()); }

Expr polynomial(const Expr& x, std::initializer_list<double> coefficients) {  // the highest first
  Expr sum;
  for (const double c : coefficients) sum = sum ? sum * x + number(c, x) : number(c, x);
  return sum;
}

}  // namespace

Expr tangent(const Expr& x) { return named("sin", x) / named("cos", x); }
Expr hyperbolic_sine(const Expr& x) { return (named("exp", x) - named("exp", number(0, x) - x)) * number(0.5, x); }
Expr hyperbolic_cosine(const Expr& x) { return (named("exp", x) + named("exp", number(0, x) - x)) * number(0.5, x); }
Expr area_sine(const Expr& x) {
  const Expr a = named("abs", x);
  const Expr y = named("log", a + named("sqrt", a * a + number(1, x)));
  return select(lt(x, number(0, x)), number(0, x) - y, y);
}
Expr area_cosine(const Expr& x) { return named("log", x + named("sqrt", x * x - number(1, x))); }
Expr area_tangent(const Expr& x) { return named("log", (number(1, x) + x) / (number(1, x) - x)) * number(0.5, x); }

// Cephes' atan (Moshier 1989): a rational function of what is near zero, after a turn by an eighth or a quarter.
Expr arc_tangent(const Expr& x) {
  const Expr a = named("abs", x), unit = number(1, x);
  const Expr is_steep = gt(a, number(2.41421356237309504880, x)), is_middle = gt(a, number(0.66, x));
  // Divisors are one where their quotient is not used.
  const Expr steep = number(-1, x) / select(is_steep, a, unit);
  const Expr small = select(is_steep, steep, select(is_middle, (a - unit) / (a + unit), a));
  const Expr turn = select(is_steep, number(M_PI_2, x), select(is_middle, number(M_PI_4, x), number(0, x)));
  const Expr z = small * small;
  const Expr p = polynomial(z, {-8.750608600031904122785e-1, -1.615753718733365076637e1, -7.500855792314704667340e1,
                                -1.228866684490136173410e2, -6.485021904942025371773e1});
  const Expr q = polynomial(z, {1, 2.485846490142306297962e1, 1.650270098316988542046e2, 4.328810604912902668951e2,
                                4.853903996359136964868e2, 1.945506571482613964425e2});
  const Expr value = turn + (small * (z * p / q) + small);
  return select(lt(x, number(0, x)), number(0, x) - value, value);
}
Expr arc_sine(const Expr& x) { return arc_tangent(x / named("sqrt", (number(1, x) - x) * (number(1, x) + x))); }
Expr arc_cosine(const Expr& x) {
  // 2 atan(√((1 - x) / (1 + x))): exact at both ends.
  return number(2, x) * arc_tangent(named("sqrt", (number(1, x) - x) / (number(1, x) + x)));
}

}  // namespace fettle::elementary
