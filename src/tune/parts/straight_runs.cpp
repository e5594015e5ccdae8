#include "tune/parts/straight_runs.h"

#include <algorithm>

#include "arith/int_eval.h"

namespace fettle {
namespace {

/// Loops that are longer are not followed iteration by iteration; more runs than these are no longer code.
constexpr int64_t kLongest = 16384;
constexpr size_t kMost = 5;

// Where each load's index is, dimension by dimension, at iteration `x`; the other loops are at their first iterations,
// or at their last.
bool places_at(const BlockStructure& block, size_t iter, int64_t x, bool others_last, std::vector<int64_t>& places) {
  IntEnv values;
  for (size_t i = 0; i < block.n_iters(); ++i)
    values.push(block.vars[i].get(), i == iter ? x : others_last ? block.extents[i] - 1 : 0);
  places.clear();
  for (const AccessPattern& load : block.loads)
    for (const Expr& index : load.indices)
      if (evaluate_int(index, values, places.emplace_back()) != IntProblem::kNone) return false;
  return true;
}

std::vector<int64_t> runs(const BlockStructure& block, size_t iter, bool others_last) {
  const int64_t extent = block.extents[iter];
  std::vector<int64_t> sizes, before, here, step, last_step;
  for (int64_t x = 0, begin = 0; x < extent; ++x) {
    if (!places_at(block, iter, x, others_last, here)) return {};
    step.assign(here.size(), 0);
    for (size_t k = 0; x > 0 && k < here.size(); ++k) step[k] = here[k] - before[k];
    // The second iteration of a run says how far a step goes.
    if (x - begin > 1 && step != last_step) {
      sizes.push_back(x - begin);
      if (sizes.size() >= kMost) return {};
      begin = x;
    }
    last_step = step;
    before = here;
    if (x + 1 == extent) sizes.push_back(extent - begin);
  }
  return sizes;
}

}  // namespace

std::vector<int64_t> straight_runs(const BlockStructure& block, size_t iter) {
  const bool bends = std::ranges::any_of(
      block.loads, [&](const AccessPattern& load) { return load.strides[iter] == AccessPattern::kIrregular; });
  if (!bends || block.extents[iter] > kLongest) return {};
  std::vector<int64_t> sizes = runs(block, iter, false);
  return sizes.size() > 1 && sizes == runs(block, iter, true) ? sizes : std::vector<int64_t>{};
}

}  // namespace fettle
