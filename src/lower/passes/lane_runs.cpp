#include "lower/passes/lane_runs.h"

#include <algorithm>

#include "ir/rewrite.h"

namespace fettle {

std::optional<LaneRun> lane_run(const std::vector<Expr>& indices, const Var& loop) {
  const auto* lanes = indices.size() == 1 ? indices.front().as<RampNode>() : nullptr;
  const int64_t* stride = lanes ? as_int(lanes->stride) : nullptr;
  if (!stride || lanes->base.dtype() != kI64) return std::nullopt;
  LaneRun run{.base = linear_form(lanes->base), .stride = *stride, .lanes = lanes->dtype.lanes};
  for (const LinearTerm& term : run.base.terms) {
    if (reads_memory(term.expr)) return std::nullopt;
    if (term.expr.get() == loop.get())
      run.step = term.coeff;
    else if (uses_var(term.expr, loop.get()))
      return std::nullopt;
  }
  return run;
}

std::optional<int64_t> elements_between(const LaneRun& a, const LaneRun& b) {
  if (a.stride != b.stride || a.lanes != b.lanes) return std::nullopt;
  LinearForm between = a.base;
  between.add(b.base, -1);
  return between.is_constant() ? std::optional(between.constant) : std::nullopt;
}

std::vector<const StoreNode*> plain_stores(const Stmt& body) {
  std::vector<const StoreNode*> stores;
  for (const Stmt& part : parts_of(body)) {
    const auto* store = part.as<StoreNode>();
    if (!store || store->mask || store->indices.size() != 1) return {};
    stores.push_back(store);
  }
  return stores;
}

}  // namespace fettle
