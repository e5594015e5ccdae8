#include "schedule/replay.h"

#include <algorithm>
#include <chrono>
#include <limits>

#include <fmt/format.h>

#include "analysis/verify.h"
#include "base/check.h"
#include "ir/text.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/sample_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/step_memory.h"
#include "schedule/subjects.h"

namespace fettle::bench {

Func gemm_to_replay() {
  auto func = parse_func(R"(
func gemm(A: f32[512, 512], B: f32[512, 512] constant, bias: f32[512], D: f32[512, 512] output):
  alloc C: f32[512, 512]
  for i in 512:
    for j in 512:
      for k in 512:
        block C(vi: spatial[512] = i, vj: spatial[512] = j, vk: reduce[512] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
  for i in 512:
    for j in 512:
      block D(vi: spatial[512] = i, vj: spatial[512] = j):
        reads C[vi, vj], bias[vj]
        writes D[vi, vj]
        D[vi, vj] = max(C[vi, vj] + bias[vj], 0.0)
)");
  FETTLE_CHECK(func.has_value());
  return *func;
}

Result<> schedule_in_25_steps(Schedule& s) {
  using Loops = std::vector<LoopRef>;
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const BlockRef d, get_block(s, {.name = "D"}));
  FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = c, .read_index = 1}));
  IndexMap map;
  if (!from_arg(ArgValue{std::string("(k, n) -> (n // 32, k, n % 32)")}, map)) return fail(ErrorCode::E224);
  FETTLE_TRY_VOID(transform_layout(s, {.block = panels, .index_map = map}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = c, .scope = kScopeRegister}));  // 5
  FETTLE_TRY_VOID(reverse_compute_inline(s, {.block = d}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = c}));
  FETTLE_TRY(const std::vector<ValueRef> rows,
             sample_tile(s, {.loop = loops[0], .innermost = TilePosition::kRows, .name = "i"}));
  FETTLE_TRY(const std::vector<ValueRef> outer,
             sample_tile(s, {.loop = loops[1], .innermost = TilePosition::kLanes, .name = "j"}));
  static_cast<void>(outer);
  FETTLE_TRY(const Loops i, split(s, {.loop = loops[0], .factors = {kInfer, rows[1]}, .tail = Tail::kBalance}));  // 10
  FETTLE_TRY(const Loops j, split(s, {.loop = loops[1], .factors = {kInfer, 2, 16}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {j[0], i[0], loops[2], i[1], j[1], j[2]}}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = i[0]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = i[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = j[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = c, .loop = loops[2]}).map([](BlockRef) {}));
  FETTLE_TRY(const Loops stored, get_loops(s, {.block = back}));
  FETTLE_TRY(const Loops lanes, split(s, {.loop = stored.back(), .factors = {kInfer, 16}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = stored[stored.size() - 2]}));  // 20
  FETTLE_TRY_VOID(unroll(s, {.loop = lanes[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = lanes[1]}));
  FETTLE_TRY_VOID(parallel(s, {.loop = j[0]}));
  FETTLE_TRY(const Loops packed, get_loops(s, {.block = panels}));
  return vectorize(s, {.loop = packed.back()});  // 25
}

void add_replay(Report& report, const ScheduleBenchOptions& options) {
  using Clock = std::chrono::steady_clock;
  const double none = std::numeric_limits<double>::quiet_NaN();
  const Func func = gemm_to_replay();
  const auto target = std::make_shared<const Target>(detect_host(1));
  Schedule made(func, 1);
  made.set_target(target);
  const auto done = schedule_in_25_steps(made);
  if (!done) fmt::print(stderr, "replay: {}\n", explain(done.error()));
  const ParsedTrace trace = as_parsed(made.trace());
  // Of each: with every step taken, then with those found that the thread has taken before.
  std::vector<double> replays_us[2], checked_us[2];
  for (const bool known : {false, true}) {
    const auto end = Clock::now() + std::chrono::duration<double>(options.seconds / 2);
    while (done && Clock::now() < end) {
      if (!known) StepMemory::of_this_thread().clear();
      const auto start = Clock::now();
      Schedule again(func, 2);
      again.set_target(target);
      const bool replayed = replay(again, trace).has_value();
      const auto middle = Clock::now();
      const bool verified = verify(again.func(), *target).has_value();
      const auto stop = Clock::now();
      if (!replayed || !verified) {
        fmt::print(stderr, "replay: {}\n", replayed ? verify(again.func(), *target).error().to_string() : "refused");
        break;
      }
      replays_us[known].push_back(std::chrono::duration<double, std::micro>(middle - start).count());
      checked_us[known].push_back(std::chrono::duration<double, std::micro>(stop - start).count());
    }
  }
  const auto median = [&](std::vector<double>& times) {
    if (times.size() < 100) return none;
    std::ranges::nth_element(times, times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2));
    return times[times.size() / 2];
  };
  report.add("steps of the GEMM trace", static_cast<double>(trace.steps.size()), "", at_least(25));
  report.add("its replay", median(replays_us[false]), "us");
  report.add("its replay and verify", median(checked_us[false]), "us", at_most(40));
  report.add("its replay where the thread knows its steps", median(replays_us[true]), "us");
}

}  // namespace fettle::bench
