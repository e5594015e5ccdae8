#include "schedule/tensor_gemm.h"

#include <cmath>
#include <limits>
#include <random>

#include <fmt/format.h>

#include "harness/paired.h"
#include "ir/annotations.h"
#include "measure/local_kernel.h"
#include "report/peak_loops.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/subjects.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::bench {

using Loops = std::vector<LoopRef>;

Func tensor_gemm_func(int64_t m, int64_t n, int64_t k, DType a_type, DType b_type, DType sum) {
  te::Tensor a = te::placeholder({m, k}, a_type, "A");
  te::Tensor b = te::placeholder({k, n}, b_type, "B");
  te::ReduceAxis r = te::reduce_axis(k, "k");
  te::Tensor c = te::compute(
      {m, n}, [&](const std::vector<Var>& i) { return te::sum(cast(sum, a(i[0], r)) * cast(sum, b(r, i[1])), {r}); },
      "C", {"i", "j"});
  return te::create_func("tensor_gemm", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

namespace {

// Reads or writes whole vectors of a tile's rows.
Result<> vectorize_rows(Schedule& s, BlockRef block, int64_t lanes) {
  FETTLE_TRY(const Loops own, get_loops(s, {.block = block}));
  FETTLE_TRY(const Loops columns, split(s, {.loop = own.back(), .factors = {kInfer, lanes}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns[0]}));
  return vectorize(s, {.loop = columns[1]});
}

}  // namespace

Result<> schedule_tensor_gemm(Schedule& s, const TensorGemmTiles& t) {
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const BlockRef panels, cache_read(s, {.block = c, .read_index = 1}));
  IndexMap map;
  const std::string text =
      fmt::format("(k, n) -> (n // {0}, k // {1}, n % {0}, k % {1})", t.vectors * t.lanes, t.steps);
  if (!from_arg(ArgValue{text}, map)) return fail(ErrorCode::E220, text);
  FETTLE_TRY_VOID(transform_layout(s, {.block = panels, .index_map = map}));

  FETTLE_TRY(const Loops loops, get_loops(s, {.block = c}));  // m n k
  FETTLE_TRY(const Loops i, split(s, {.loop = loops[0], .factors = {kInfer, t.rows}, .tail = Tail::kBalance}));
  FETTLE_TRY(const Loops j, split(s, {.loop = loops[1], .factors = {kInfer, t.vectors, t.lanes}}));
  Loops k = {LoopRef(), loops[2]};
  if (t.depth > 0)
    FETTLE_TRY_VOID(split(s, {.loop = loops[2], .factors = {kInfer, t.depth}}).map([&](const Loops& l) { k = l; }));
  FETTLE_TRY(const Loops steps, split(s, {.loop = k[1], .factors = {kInfer, t.steps}}));
  const LoopRef tile = t.rows_outside ? j[0] : i[0];
  Loops order = {t.rows_outside ? i[0] : j[0], tile, steps[0], i[1], j[1], j[2], steps[1]};
  if (t.depth > 0) order.insert(order.begin(), k[0]);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY_VOID(unroll(s, {.loop = i[1]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = j[1]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[2]}));

  if (t.depth > 0) {
    FETTLE_TRY(const std::vector<BlockRef> copies, cache_inplace(s, {.block = c, .write_index = 0, .loop = tile}));
    for (const BlockRef copy : copies) FETTLE_TRY_VOID(vectorize_rows(s, copy, t.lanes));
  } else {
    FETTLE_TRY(const BlockRef back, cache_write(s, {.block = c, .write_index = 0, .scope = kScopeRegister}));
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = tile}));
    FETTLE_TRY_VOID(vectorize_rows(s, back, t.lanes));
    FETTLE_TRY_VOID(decompose_reduction(s, {.block = c, .loop = steps[0]}).map([](BlockRef) {}));
  }
  FETTLE_TRY_VOID(tensorize(s, {.target = j[2], .intrinsic = t.intrinsic}).map([](BlockRef) {}));
  if (t.ask_panel) FETTLE_TRY_VOID(annotate(s, {.target = j[0], .key = kPrefetchKey, .value = 1}));
  if (t.ask_rows) FETTLE_TRY_VOID(annotate(s, {.target = i[0], .key = kPrefetchKey, .value = 1}));
  return {};
}

namespace {

constexpr int64_t kSize = 1024;

struct TensorGemm {
  std::string name;
  DType a, b, sum;
  TensorGemmTiles tiles;
  PeakLoop peak;
};

std::vector<TensorGemm> tensor_gemms() {
  return {{"int8 GEMM 1024³ by hand", kU8, kI8, kI32, {}, int8_loop()},
          {"bf16 GEMM 1024³ by hand", kBF16, kBF16, kF32, {.intrinsic = "vdpbf16ps_512", .steps = 2}, bf16_loop()}};
}

double share_of_peak(const TensorGemm& gemm, const ScheduleBenchOptions& options) {
  constexpr double kNothing = std::numeric_limits<double>::quiet_NaN();
  if (!gemm.peak.run) return kNothing;
  const Target target = detect_host(1);
  Schedule s(tensor_gemm_func(kSize, kSize, kSize, gemm.a, gemm.b, gemm.sum));
  s.set_target(std::make_shared<const Target>(target));
  if (const auto done = schedule_tensor_gemm(s, gemm.tiles); !done) {
    fmt::print(stderr, "{}: {}\n", gemm.name, done.error().to_string());
    return kNothing;
  }
  auto built = LocalKernel::build(s.func(), target, {.huge_pages = true});
  if (!built) {
    fmt::print(stderr, "{}: {}\n", gemm.name, built.error().to_string());
    return kNothing;
  }
  constexpr int64_t kTurns = 20000;
  std::vector<Contender> contenders(2);
  contenders[0] = {.name = "GEMM", .run = [&] { built->call(); }, .flops = 2.0 * kSize * kSize * kSize};
  contenders[1] = {.name = "peak", .run = [&] { gemm.peak.run(kTurns); }, .flops = gemm.peak.ops * kTurns};
  PeakMeter meter(1);
  const auto timed = time_paired(contenders, meter, {.time_limit_s = options.seconds});
  if (!timed) return kNothing;
  fmt::print("{}: {:.0f} of {:.0f} Gop/s\n", gemm.name, timed->gflops(0), timed->gflops(1));
  return 100 * timed->speed_over(0, 1).median * contenders[0].flops / contenders[1].flops;
}

}  // namespace

void add_tensor_gemms(Report& report, const ScheduleBenchOptions& options) {
  for (const TensorGemm& gemm : tensor_gemms())
    report.add(gemm.name, share_of_peak(gemm, options), "% of peak", at_least(85));
}

}  // namespace fettle::bench
