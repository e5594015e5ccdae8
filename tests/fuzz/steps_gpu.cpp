// Kernels that use what GPUs have beside threads: tensor units, registers of a warp, asynchronous copies.
#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "tests/fuzz/actions.h"

namespace fettle::fuzz::actions {
namespace {

/// A multiple of `unit` that divides the extent, or 0.
int64_t tile_of(Attempt& a, int64_t extent, int64_t unit, std::vector<int64_t> counts) {
  a.shuffle(counts);
  for (const int64_t count : counts)
    if (extent % (unit * count) == 0) return unit * count;
  return 0;
}

/// A tile of what `block` reads, copied to shared memory at `loop` by all threads, `lanes` elements at a time.
std::optional<BlockRef> fetch(Attempt& a, BlockRef block, int64_t read, LoopRef loop, size_t outer,
                              const std::vector<IntRef>& threads, int64_t lanes) {
  const auto copy = a.step("cache_read", {{"block", block}, {"read_index", read}, {"scope", "shared"}});
  if (!copy) return {};
  const BlockRef made = a.s.blocks_of(*copy)[0];
  if (!a.step("compute_at", {{"block", made}, {"loop", loop}})) return {};
  const auto own = a.loops_of(made);
  if (own.size() <= outer) return {};
  const auto all = a.step("fuse", {{"loops", loop_list({own.begin() + static_cast<long>(outer), own.end()})}});
  if (!all) return {};
  std::vector<IntRef> factors = {IntRef(kInfer)};
  factors.insert(factors.end(), threads.begin(), threads.end());
  factors.emplace_back(lanes);
  const auto parts =
      a.step("split", {{"loop", a.s.loops_of(*all)[0]}, {"factors", factor_list(factors)}, {"tail", Tail::kGuard}});
  if (!parts) return {};
  const auto loops = a.s.loops_of(*parts);
  static const std::vector<std::string> kAxes = {"threadIdx.z", "threadIdx.y", "threadIdx.x"};
  for (size_t t = 0; t < threads.size(); ++t) a.step("bind", {{"loop", loops[t + 1]}, {"thread_axis", kAxes[t]}});
  if (a.chance(80)) a.step("unroll", {{"loop", loops[0]}});
  if (a.step("vectorize", {{"loop", loops.back()}}) && a.chance(75))
    a.step("annotate",
           {{"target", loops.back()}, {"key", std::string(kAsyncCopyKey)}, {"value", Attribute(int64_t{1})}});
  return made;
}

/// The two innermost loops of the block beyond `outer` in tiles that an intrinsic takes.
void in_tiles(Attempt& a, BlockRef block, size_t outer, int64_t rows, int64_t columns, const char* by) {
  const auto own = a.loops_of(block);
  if (own.size() < outer + 2) return;
  const auto r = a.step("split", {{"loop", own[outer]}, {"factors", factor_list({IntRef(kInfer), IntRef(rows)})}});
  const auto q =
      a.step("split", {{"loop", own[outer + 1]}, {"factors", factor_list({IntRef(kInfer), IntRef(columns)})}});
  if (!r || !q) return;
  const auto i = a.s.loops_of(*r), j = a.s.loops_of(*q);
  if (!a.step("reorder", {{"loops", loop_list({i[0], j[0], i[1], j[1]})}})) return;
  for (const LoopRef loop : {i[0], j[0]}) a.step("unroll", {{"loop", loop}});
  a.step("tensorize", {{"target", StepRef(i[1])}, {"intrinsic", by}});
}

}  // namespace

/// A product of halves by the tensor units: blocks of warps, factors in shared memory and in registers of warps, copies
/// ahead by one or several steps; what reads the sums follows, now and then.
bool tensor_kernel(Attempt& a) {
  const auto block = a.any_block([](const BlockNode& b) {
    return b.init && b.reads.size() == 2 && b.reads[0].buffer->dtype == kF16 && b.reads[1].buffer->dtype == kF16;
  });
  if (!block) return false;
  const auto loops = a.loops_of(*block);
  if (loops.size() != 3) return false;
  const int64_t warp_m = tile_of(a, a.extent(loops[0]), 16, {1, 2}),
                warp_n = tile_of(a, a.extent(loops[1]), 8, {1, 2, 4});
  const int64_t block_k = tile_of(a, a.extent(loops[2]), 16, {1, 2, 4});
  if (warp_m <= 0 || warp_n <= 0 || block_k <= 0) return false;
  const int64_t warps_m = tile_of(a, a.extent(loops[0]) / warp_m, 1, {1, 2, 2}),
                warps_n = tile_of(a, a.extent(loops[1]) / warp_n, 1, {1, 2, 4});
  const auto copy = a.step("cache_write", {{"block", *block}, {"scope", "fragment"}});
  if (!copy) return false;
  const BlockRef back = a.s.blocks_of(*copy)[0];
  const auto split = [&](LoopRef loop, const std::vector<IntRef>& factors) {
    const auto parts = a.step("split", {{"loop", loop}, {"factors", factor_list(factors)}});
    return parts ? a.s.loops_of(*parts) : std::vector<LoopRef>();
  };
  const IntRef rest(kInfer);
  const auto i = split(loops[0], {rest, warps_m, warp_m / 16, 16}), j = split(loops[1], {rest, warps_n, warp_n / 8, 8}),
             k = split(loops[2], {rest, block_k / 16, 16});
  if (i.empty() || j.empty() || k.empty()) return true;
  if (!a.step("reorder", {{"loops", loop_list({i[0], j[0], i[1], j[1], k[0], k[1], i[2], j[2], i[3], j[3], k[2]})}}))
    return true;
  a.step("bind", {{"loop", i[0]}, {"thread_axis", "blockIdx.y"}});
  a.step("bind", {{"loop", j[0]}, {"thread_axis", "blockIdx.x"}});
  a.step("bind", {{"loop", i[1]}, {"thread_axis", "threadIdx.z"}});
  a.step("bind", {{"loop", j[1]}, {"thread_axis", "threadIdx.y"}});
  for (const LoopRef loop : {k[1], i[2], j[2]})
    if (a.chance(85)) a.step("unroll", {{"loop", loop}});
  if (a.step("reverse_compute_at", {{"block", back}, {"loop", j[1]}}))
    in_tiles(a, back, 4, 16, 8, "mma_m16n8k16_f16_store");
  const int64_t stages = a.between(1, 4);
  const bool swizzles = a.chance(50);
  int copies = 0;
  for (const int64_t read : {0, 1}) {
    const auto shared = fetch(a, *block, read, k[0], 5, {IntRef(warps_m), IntRef(warps_n), IntRef(32)},
                              a.one_of(std::vector<int64_t>{8, 8, 4, 2}));
    if (!shared) continue;
    ++copies;
    const auto own = a.loops_of(*shared);
    if (swizzles && !own.empty())
      a.step("annotate", {{"target", own.back()}, {"key", std::string(kSwizzleKey)}, {"value", Attribute(int64_t{1})}});
    else if (a.chance(70))
      a.step("storage_align",
             {{"block", *shared}, {"buffer_index", 0}, {"axis", 0}, {"factor", int64_t{64}}, {"offset", int64_t{8}}});
    if (stages == 2) a.step("double_buffer", {{"block", *shared}});
  }
  if (stages > 2 && copies == 2)
    a.step(
        "software_pipeline",
        {{"loop", k[0]}, {"stages", std::vector<int64_t>{0, 0, stages - 1}}, {"order", std::vector<int64_t>{0, 1, 2}}});
  static constexpr const char* kLoads[] = {"mma_m16n8k16_f16_load_a", "mma_m16n8k16_f16_load_b"};
  for (const int64_t read : {0, 1}) {
    if (a.chance(10)) continue;  // from shared memory, each time
    const auto held = a.step("cache_read", {{"block", *block}, {"read_index", read}, {"scope", "fragment"}});
    if (held && a.step("compute_at", {{"block", a.s.blocks_of(*held)[0]}, {"loop", k[1]}}))
      in_tiles(a, a.s.blocks_of(*held)[0], 6, 16, read == 0 ? 16 : 8, kLoads[read]);
  }
  const auto init = a.step("decompose_reduction", {{"block", *block}, {"loop", k[0]}});
  if (!init) return true;
  const auto tile = a.loops_of(a.s.blocks_of(*init)[0]);
  if (tile.size() >= 2)
    a.step("tensorize", {{"target", StepRef(tile[tile.size() - 2])}, {"intrinsic", "mma_m16n8k16_f16_fill"}});
  a.step("tensorize", {{"target", StepRef(i[3])}, {"intrinsic", "mma_m16n8k16_f16"}});
  return true;
}

}  // namespace fettle::fuzz::actions
