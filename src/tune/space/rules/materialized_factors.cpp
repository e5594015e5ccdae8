#include "tune/space/rules/materialized_factors.h"

#include "tune/parts/materialized_factors.h"
#include "tune/parts/preferences.h"

namespace fettle {

Result<> choose_materialized_factors(RuleContext& ctx) {
  const auto product = narrow_product(ctx.schedule.func(), *ctx.target);
  if (!product || product->n_rows < 2) return {};
  ctx.schedule.set_address_prefix("materialized_factors/" + product->block);
  std::vector<int64_t> factors;
  if (product->columns) {
    FETTLE_TRY(const int64_t columns, choose(ctx, "columns", {0, 1}, product->fills_panels() ? 1 : 0));
    if (columns != 0) factors.push_back(*product->columns);
  }
  if (product->rows) {
    const bool pays = product->n_columns >= preferences::kVectorsOfWideRows * ctx.lanes(kF32);
    FETTLE_TRY(const int64_t rows, choose(ctx, "rows", {0, 1}, pays ? 1 : 0));
    if (rows != 0) factors.push_back(*product->rows);
  }
  return factors.empty() ? Result<>() : materialize(ctx.schedule, product->block, factors);
}

}  // namespace fettle
