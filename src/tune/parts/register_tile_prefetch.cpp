// What a register tile asks for early: the next steps, panels and rows.

#include <algorithm>

#include "ir/annotations.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/loops.h"
#include "tune/parts/preferences.h"
#include "tune/parts/register_tiling.h"
#include "tune/parts/tile_steps.h"

namespace fettle {

// The next rows of a panel come from the second-level cache, and are asked for. Steps that are not taken several at
// once ask one by one: worth it where each reads several lines.
bool RegisterTiling::asks_near(size_t reduce_loops) const {
  const int64_t bytes = choice.tile.vectors * lanes * structure.store.buffer->dtype.element_bytes();
  return streams_panels() && (reduce_loops == 1 || bytes > kCacheLineBytes);
}

// A few steps make one iteration: fewer instructions that only count, which take the place of multiply-adds. The
// innermost of the reduction's loops, afterwards.
Result<LoopRef> RegisterTiling::several_at_once(const Loops& reduce) {
  constexpr int64_t kStepsAtOnce = preferences::kStepsAtOnce;
  LoopRef step = reduce.back();
  const auto stmt = s.loop(step);
  if (!stmt || stmt->as<ForNode>()->loop_kind != ForKind::kSerial || !structure.multiplies_two_loads) return step;
  FETTLE_TRY(const int64_t steps, loop_extent(s, step));
  const bool even = (!blocked || extent(*blocked) % choice.depth == 0) && steps % kStepsAtOnce == 0;
  if (!even || steps < 2 * kStepsAtOnce) return step;
  const int64_t work = choice.tile.rows * choice.tile.second_rows * choice.tile.vectors;
  const bool long_loop = steps >= 8 * kStepsAtOnce;
  // Sums of single vectors wander from register to register between steps, and need some to spare.
  const bool fits = choice.tile.vectors > 1 || work + 4 < target.vector_registers;
  // A second-level cache of two mebibytes is farther away, and waiting for it leaves the core less time to count.
  const bool waits = asks_near(1) && cache(1) >= preferences::kFarCacheBytes;
  const bool counts = work < preferences::kFewMultiplyAdds && fits && !streams_from_l2();
  const bool preferred = counts || (reduce.size() == 1 && long_loop && waits);
  return several_steps(s, decider, step, {1, kStepsAtOnce}, preferred ? 1 : 0).map([](const Loops& parts) {
    return parts.back();
  });
}

// A hundred cycles early.
Result<> RegisterTiling::ask_near(LoopRef step, size_t reduce_loops) {
  if (roles.vector_loads.size() != 1 || 4 * panel_bytes() < cache(0)) return {};
  FETTLE_TRY(const int64_t near, pick("prefetch_near", {0, preferences::kStepsAhead}, asks_near(reduce_loops) ? 1 : 0));
  return near == 0 ? Result<>() : annotate(s, {.target = step, .key = kPrefetchNearKey, .value = near});
}

// What comes from far away is asked for early: the next panel of vectors or the next step of the outermost reduction
// loop (the next channels of a convolution's weights), and the rows of the next tile.
Result<> RegisterTiling::ask_ahead(LoopRef panels, LoopRef rows, const Loops& reduce) {
  const auto innermost = s.loop(reduce.back());
  const bool is_serial = innermost && innermost->as<ForNode>()->loop_kind == ForKind::kSerial;
  const auto exists = [&](LoopRef loop) { return s.loop(loop).has_value(); };  // it may have been fused
  int64_t steps = 1, near = 1;  // iterations of the innermost loop: of a panel, of one step of the outermost loop
  for (size_t i = 0; i < structure.n_iters(); ++i)
    if (structure.reduce[i]) steps *= extent(i);
  for (size_t r = 1; r < reduce.size(); ++r) {
    FETTLE_TRY(const int64_t n, loop_extent(s, reduce[r]));
    near *= n;
  }
  FETTLE_TRY(const LoopRef step, several_at_once(reduce));
  if (!roles.panel || !is_serial) return {};
  const int64_t element = structure.store.buffer->dtype.element_bytes();
  const int64_t l2 = cache(1);

  enum : int64_t { kNothing, kNextPanel, kNextStep };
  std::vector<int64_t> candidates = {kNothing};
  const int64_t at_once = choice.depth > 0 ? std::min(choice.depth, steps) : steps;
  const bool far = 2 * steps * extent(roles.vector) * element > l2;
  const bool two_fit = 4 * at_once * choice.tile.vectors * lanes * element <= 2 * l2;
  size_t preferred = 0;
  if (exists(panels)) {
    candidates.push_back(kNextPanel);
    if (far && two_fit && !choice.rows_outside) preferred = 1;
  }
  if (reduce.size() > 1 && near > 1 && near < steps) {  // nearer in time, so it is still there when its turn comes
    candidates.push_back(kNextStep);
    // On short vectors a step is over in the time of a few requests: 7x7 images take a quarter longer with them.
    if (far && !choice.rows_outside && lanes >= preferences::kLongVector) preferred = candidates.size() - 1;
  }
  FETTLE_TRY(const int64_t ahead, pick("prefetch", candidates, preferred));
  if (ahead == kNextPanel) FETTLE_TRY_VOID(ask_for_next_panel(s, panels));
  if (ahead == kNextStep) FETTLE_TRY_VOID(annotate(s, {.target = step, .key = kPrefetchKey, .value = near}));

  FETTLE_TRY_VOID(ask_near(step, reduce.size()));

  if (!roles.row || roles.row_loads.empty() || choice.rows_outside || !exists(rows)) return {};
  int64_t row_bytes = steps * extent(*roles.row) * element;
  for (size_t i : roles.outside) row_bytes *= extent(i);
  if (row_bytes <= l2) return {};
  FETTLE_TRY(const int64_t next_rows, pick("prefetch_rows", {0, 1}, 4 * row_bytes > cache(2)));
  if (next_rows == 0) return {};
  return annotate(s, {.target = rows, .key = kPrefetchKey, .value = 1});
}

}  // namespace fettle
