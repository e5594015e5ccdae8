#include "polyhedral/step_blocks.h"

#include <algorithm>

#include "polyhedral/register_tiles.h"

namespace fettle {
namespace {

constexpr size_t kMembers = 3;  // rows of the band
// A row without what it is shifted by: blocks of all statements begin together.
Expr unshifted(const Expr& row) {
  const LinearForm form = linear_form(row);
  return form.constant == 0 ? row : simplify(row - Expr(form.constant));
}

}  // namespace

std::optional<std::vector<IndexMap>> plan_step_blocks(const std::vector<NestStatement>& statements,
                                                      const std::vector<IndexMap>& maps, int64_t depth) {
  std::optional<size_t> summed;
  std::vector<bool> is_sum;
  for (size_t k = 0; k < statements.size(); ++k) {
    const auto row = summed_row(statements[k], maps[k]);
    if (row && summed && *row != *summed) return std::nullopt;
    if (row) summed = row;
    is_sum.push_back(row.has_value());
  }
  if (!summed || statements.size() < 2) return std::nullopt;
  std::vector<IndexMap> blocked;
  for (size_t k = 0; k < statements.size(); ++k) {
    IndexMap& map = blocked.emplace_back();
    map.inputs = maps[k].inputs;
    std::vector<Expr> rows = maps[k].outputs;
    for (size_t d = 0; d < kMembers; ++d) rows[d] = unshifted(rows[d]);
    const Expr of_steps = floordiv(rows[*summed], Expr(depth));
    Expr beyond = 0;
    if (is_sum[k]) {
      beyond = 1;
      for (size_t d = 0; d < kMembers; ++d)
        if (d != *summed) beyond = min(beyond, floordiv(rows[d], Expr(depth)) - of_steps);
      beyond = max(beyond, Expr(0)) * Expr(static_cast<int64_t>(k + 1));
    }
    map.outputs = {of_steps, beyond};
    map.outputs.insert(map.outputs.end(), rows.begin(), rows.end());
  }
  return blocked;
}

}  // namespace fettle
