// Stages without sums: elementwise work, other orders and shapes, stencils, padding, gathers.
#include "tests/fuzz/program_maker.h"

namespace fettle::fuzz {

Expr Maker::elementwise(Expr x, double& bound, const std::vector<Iter>& list) {
  switch (between(0, 9)) {
    case 0:
      bound += 2;
      return x + number(2);
    case 1:
      bound = bound * 2 + 1;
      return x * number(2) - number(1);
    case 2:
      return max(x, number(0));
    case 3:
      bound = std::max(bound, 5.0);
      return min(x, number(5));
    case 4:
      bound *= 1;
      return type_.code == TypeCode::kUInt ? x : call("abs", {x}, type_);
    case 5:
      bound = std::max(bound, 1.0);
      return select(lt(x, number(1)), x, number(1));
    case 6:
      bound += 3;
      return select(lt(Expr(list[0].var), size_of(list[0].extent) - 1), x, x + number(3));
    case 7:
      bound = bound + 4;
      return select(eq(floormod(Expr(list.back().var), 3), Expr(1)), number(4), x);
    case 8:
      bound *= 3;
      return number(3) * x;
    default:
      bound += 1;
      return number(1) - x;
  }
}

void Maker::elementwise_stage() {
  const Tensor t = some();
  const auto list = iters(t.extents);
  double bound;
  Expr value = read(t, vars(list), 8, bound);
  for (int i = between(1, 2); i > 0; --i) value = elementwise(value, bound, list);
  if (chance(40)) {
    const Tensor other = like(t.extents);
    double second;
    const Expr y = read(other, vars(list), std::max(bound, 1.0) * 2, second);
    if (chance(50) && bound * second <= limit_) {
      value = value * y;
      bound *= second;
    } else {
      value = value + y;
      bound += second;
    }
  }
  if (bound > limit_) return;
  define(list, t.extents, vars(list), value, bound);
}

void Maker::bias_stage() {
  const Tensor t = made_.back(), bias = input(t.extents);
  if (t.bound + bias.bound > limit_) return;
  const auto list = iters(t.extents);
  define(list, t.extents, vars(list), load(t.buffer, vars(list)) + load(bias.buffer, vars(list)), t.bound + bias.bound);
}

void Maker::broadcast_stage() {
  const Tensor t = some();
  if (t.extents.size() < 2) return;
  const auto list = iters(t.extents);
  const size_t d = r_.below(t.extents.size());
  const Tensor row = like({t.extents[d]});
  double a, b;
  const Expr x = read(t, vars(list), 2, a), y = read(row, {Expr(list[d].var)}, 2, b);
  if (a + b > limit_) return;
  define(list, t.extents, vars(list), chance(50) ? x + y : max(x - y, number(0)), a + b);
}

void Maker::transpose_stage() {
  const Tensor t = some();
  if (t.extents.size() < 2) return;
  std::vector<size_t> order(t.extents.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i-- > 1;) std::swap(order[i], order[r_.below(i + 1)]);
  std::vector<int64_t> extents;
  for (const size_t d : order) extents.push_back(t.extents[d]);
  const auto list = iters(extents);
  std::vector<Expr> at(order.size());
  for (size_t i = 0; i < order.size(); ++i) at[order[i]] = Expr(list[i].var);
  define(list, extents, vars(list), load(t.buffer, at), t.bound);
}

void Maker::reshape_stage() {
  const Tensor t = some();
  for (const int64_t e : t.extents)
    if (e < 0) return;
  if (t.extents.size() >= 2) {  // the last two become one
    std::vector<int64_t> extents(t.extents.begin(), t.extents.end() - 2);
    const int64_t inner = t.extents.back();
    extents.push_back(t.extents[t.extents.size() - 2] * inner);
    const auto list = iters(extents);
    std::vector<Expr> at = vars(list);
    const Expr flat = at.back();
    at.pop_back();
    at.push_back(floordiv(flat, inner));
    at.push_back(floormod(flat, inner));
    define(list, extents, vars(list), load(t.buffer, at), t.bound);
    return;
  }
  for (const int64_t f : {4, 3, 2, 5}) {
    if (t.extents[0] % f != 0 || t.extents[0] == f) continue;
    const std::vector<int64_t> extents{t.extents[0] / f, f};
    const auto list = iters(extents);
    define(list, extents, vars(list), load(t.buffer, {Expr(list[0].var) * f + Expr(list[1].var)}), t.bound);
    return;
  }
}

void Maker::stencil_stage() {
  const Tensor t = some();
  const size_t d = r_.below(t.extents.size());
  const int taps = between(2, 3);
  if (t.extents[d] < taps + 1) return;
  const bool guarded = chance(40);
  std::vector<int64_t> extents = t.extents;
  if (!guarded) extents[d] -= taps - 1;
  const auto list = iters(extents);
  Expr value;
  double bound = 0;
  for (int k = 0; k < taps; ++k) {
    std::vector<Expr> at = vars(list);
    const Expr where = at[d] + (k - (guarded ? 1 : 0));
    at[d] = where;
    double b;
    Expr x = read(t, at, taps, b);
    if (guarded && k != 1) x = select(logical_and(le(Expr(0), where), lt(where, size_of(t.extents[d]))), x, number(0));
    value = value ? value + x : x;
    bound += b;
  }
  define(list, extents, vars(list), value, bound);
}

void Maker::padding_stage() {
  const Tensor t = some();
  std::vector<int64_t> extents = t.extents;
  std::vector<int> low(extents.size(), 0), high(extents.size(), 0);
  for (size_t d = 0; d < extents.size(); ++d) {
    if (extents[d] < 0 || (d > 0 && chance(30))) continue;
    low[d] = between(0, 2);
    high[d] = between(0, 2);
    extents[d] += low[d] + high[d];
  }
  if (points(extents) > 3000) return;
  const auto list = iters(extents);
  Expr inside;
  std::vector<Expr> at;
  for (size_t d = 0; d < extents.size(); ++d) {
    at.push_back(Expr(list[d].var) - low[d]);
    if (low[d]) inside = logical_and(inside, le(Expr(low[d]), Expr(list[d].var)));
    if (high[d]) inside = logical_and(inside, lt(Expr(list[d].var), size_of(t.extents[d]) + low[d]));
  }
  if (!inside) return;
  define(list, extents, vars(list), select(inside, load(t.buffer, at), number(chance(80) ? 0 : 1)),
         std::max(t.bound, 1.0));
}

void Maker::gather_stage() {
  const Tensor t = some();
  if (t.extents[0] < 2) return;  // one row is no choice
  const int64_t rows = extent(16);
  std::vector<int64_t> extents = t.extents;
  extents[0] = rows;
  if (points(extents) > 3000) return;
  const Buffer index = indices({rows});
  const auto list = iters(extents);
  std::vector<Expr> at = vars(list);
  at[0] = max(min(load(index, {at[0]}), Expr(t.extents[0] - 1)), Expr(0));
  define(list, extents, vars(list), load(t.buffer, at), t.bound);
}

}  // namespace fettle::fuzz
