#include "polyhedral/fronts.h"

#include "arith/linear.h"

namespace fettle {
namespace {

// c, of rows (t, c t + x, …).
std::optional<int64_t> lean_of(const IndexMap& map) {
  if (map.outputs.size() < 2) return std::nullopt;
  const LinearForm first = linear_form(map.outputs[0]), second = linear_form(map.outputs[1]);
  for (const Var& loop : map.inputs)
    if (first.terms.size() == 1 && first.coeff_of(loop) == 1) return second.coeff_of(loop);
  return std::nullopt;
}

}  // namespace

std::vector<Expr> in_fronts(const std::vector<Expr>& rows, const std::vector<int64_t>& factors, size_t first,
                            const std::vector<Expr>& within) {
  std::vector<Expr> outputs;
  for (size_t d = 0; d < factors.size(); ++d) outputs.push_back(floordiv(rows[d], Expr(factors[d])));
  outputs[first] = outputs[first] + outputs[first + 1];
  outputs.insert(outputs.end(), within.begin(), within.end());
  return outputs;
}

std::optional<std::vector<IndexMap>> leaning_both_ways(const std::vector<IndexMap>& maps) {
  const std::optional<int64_t> lean = maps.empty() ? std::nullopt : lean_of(maps.front());
  std::vector<IndexMap> made = maps;
  for (IndexMap& map : made) {
    if (!lean || *lean < 1 || lean_of(map) != lean) return std::nullopt;
    const int64_t shift = linear_form(map.outputs[1]).constant;  // later blocks stay later
    map.outputs[0] = simplify(map.outputs[0] * Expr(2 * *lean) - map.outputs[1] + Expr(2 * shift));
  }
  return made;
}

}  // namespace fettle
