
#include <fmt/format.h>

#include "base/check.h"
#include "cuda/schedules.h"
#include "cuda/steps.h"
#include "ir/annotations.h"
#include "ir/text.h"

namespace fettle::bench {

Func gemm_program(int64_t m, int64_t n, int64_t k, bool half) {
  const char* type = half ? "f16" : "f32";
  const char* product = half ? "f32(A[i, k]) * f32(B[k, j])" : "A[i, k] * B[k, j]";
  const auto made =
      parse_loops(fmt::format("A: {3}[{0}, {2}]\nB: {3}[{2}, {1}]\nC: f32[{0}, {1}]\n"
                              "for i in {0}: for j in {1}: for k in {2}: C[i, j] += {4}",
                              m, n, k, type, product));
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

namespace {

// A tile of what `block` reads, made in shared memory at `loop` (which `outer` loops enclose, itself included) by all
// threads, `lanes` elements a time; rows lie 16 bytes apart.
Result<BlockRef> fetch(Schedule& s, BlockRef block, int64_t read, LoopRef loop, size_t outer,
                       const std::vector<std::pair<int64_t, const char*>>& threads, int64_t lanes) {
  FETTLE_TRY(const BlockRef copy, cache_read(s, {.block = block, .read_index = read, .scope = "shared"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = loop}));
  FETTLE_TRY(const Loops own, get_loops(s, {.block = copy}));
  FETTLE_TRY(const LoopRef all, fuse(s, {.loops = {own.begin() + static_cast<std::ptrdiff_t>(outer), own.end()}}));
  std::vector<IntRef> factors = {kInfer};
  for (const auto& [extent, axis] : threads) factors.push_back(extent);
  factors.push_back(lanes);
  FETTLE_TRY(const Loops parts, split(s, {.loop = all, .factors = factors}));
  for (size_t t = 0; t < threads.size(); ++t)
    FETTLE_TRY_VOID(bind(s, {.loop = parts[t + 1], .thread_axis = threads[t].second}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts.back()}));
  FETTLE_TRY_VOID(annotate(s, {.target = parts.back(), .key = kAsyncCopyKey}));
  return copy;
}

// What a thread keeps: its groups of 4 lie `step` apart, and next to one another in its memory.
//   T[…, i, …]   →   T[i // step, i % step, …]
Result<> gather_groups(Schedule& s, BlockRef block, const std::string& map) {
  return transform_layout(s, {.block = block, .index_map = index_map(map)});
}

}  // namespace

Result<> schedule_gemm_f32(Schedule& s, const GemmTiles& t) {
  const int64_t threads_m = t.block_m / t.thread_m, threads_n = t.block_n / t.thread_n;
  const int64_t groups_m = t.thread_m / 4, groups_n = t.thread_n / 4;
  const int64_t step_m = t.block_m / groups_m, step_n = t.block_n / groups_n;
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = c, .write_index = 0, .scope = "local"}));
  FETTLE_TRY_VOID(gather_groups(s, c, fmt::format("(i, j) -> (i // {0}, j // {1}, i % {0}, j % {1})", step_m, step_n)));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = c}));
  FETTLE_TRY(const Loops i, split(s, {.loop = l[0], .factors = {kInfer, groups_m, threads_m, 4}}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[1], .factors = {kInfer, groups_n, threads_n, 4}}));
  FETTLE_TRY(const Loops k, split(s, {.loop = l[2], .factors = {kInfer, t.block_k / t.vector_k, t.vector_k}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {i[0], j[0], i[2], j[2], k[0], i[1], j[1], k[1], k[2], i[3], j[3]}}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[0], .thread_axis = "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[0], .thread_axis = "blockIdx.x"}));
  if (t.min_blocks > 0) FETTLE_TRY_VOID(annotate(s, {.target = i[0], .key = kMinBlocksKey, .value = t.min_blocks}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[2], .thread_axis = "threadIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[2], .thread_axis = "threadIdx.x"}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[1], .thread_axis = "vthread.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[1], .thread_axis = "vthread.x"}));
  for (const LoopRef loop : {k[2], i[3], j[3]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));

  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = j[2]}));
  FETTLE_TRY(const Loops own, get_loops(s, {.block = back}));
  FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - 2]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = own.back()}));

  const std::vector<std::pair<int64_t, const char*>> threads = {{threads_m, "threadIdx.y"}, {threads_n, "threadIdx.x"}};
  for (const int64_t read : {0, 1}) {
    FETTLE_TRY(const BlockRef copy, fetch(s, c, read, k[0], 5, threads, 4));
    if (read == 0)
      FETTLE_TRY_VOID(storage_align(s, {.block = copy, .buffer_index = 0, .axis = 0, .factor = 32, .offset = 4}));
    FETTLE_TRY_VOID(double_buffer(s, {.block = copy, .write_index = 0}));
  }
  // Rows of A, vector_k at a time; of B the columns of one k.
  FETTLE_TRY(const BlockRef a, cache_read(s, {.block = c, .read_index = 0, .scope = "local"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = a, .loop = k[1]}));
  FETTLE_TRY_VOID(gather_groups(s, a, fmt::format("(i, k) -> (i // {0}, i % {0}, k)", step_m)));
  FETTLE_TRY(const BlockRef b, cache_read(s, {.block = c, .read_index = 1, .scope = "local"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = b, .loop = k[2]}));
  FETTLE_TRY_VOID(gather_groups(s, b, fmt::format("(k, j) -> (k, j // {0}, j % {0})", step_n)));
  for (const BlockRef copy : {a, b}) {
    FETTLE_TRY(const Loops inner, get_loops(s, {.block = copy}));
    for (size_t d = copy == a ? 8 : 9; d + 1 < inner.size(); ++d) FETTLE_TRY_VOID(unroll(s, {.loop = inner[d]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = inner.back()}));
  }
  return decompose_reduction(s, {.block = c, .loop = k[0]}).map([](BlockRef) {});
}

Result<> schedule_gemm_f16(Schedule& s, const TensorGemmTiles& t) {
  const int64_t warps_m = t.block_m / t.warp_m, warps_n = t.block_n / t.warp_n;
  FETTLE_TRY(const BlockRef c, get_block(s, {.name = "C"}));
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = c, .write_index = 0, .scope = "fragment"}));
  FETTLE_TRY(const Loops l, get_loops(s, {.block = c}));
  FETTLE_TRY(const Loops i, split(s, {.loop = l[0], .factors = {kInfer, warps_m, t.warp_m / 16, 16}}));
  FETTLE_TRY(const Loops j, split(s, {.loop = l[1], .factors = {kInfer, warps_n, t.warp_n / 8, 8}}));
  FETTLE_TRY(const Loops k, split(s, {.loop = l[2], .factors = {kInfer, t.block_k / 16, 16}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {i[0], j[0], i[1], j[1], k[0], k[1], i[2], j[2], i[3], j[3], k[2]}}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[0], .thread_axis = "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[0], .thread_axis = "blockIdx.x"}));
  if (t.min_blocks > 0) FETTLE_TRY_VOID(annotate(s, {.target = i[0], .key = kMinBlocksKey, .value = t.min_blocks}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[1], .thread_axis = "threadIdx.z"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[1], .thread_axis = "threadIdx.y"}));
  for (const LoopRef loop : {k[1], i[2], j[2]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));

  // A tile of rows x columns below the loops of the block beyond `outer`, by an intrinsic of a warp.
  const auto in_tiles = [&](BlockRef block, size_t outer, int64_t rows, int64_t columns, const char* by) -> Result<> {
    FETTLE_TRY(const Loops own, get_loops(s, {.block = block}));
    FETTLE_TRY(const Loops r, split(s, {.loop = own[outer], .factors = {kInfer, rows}}));
    FETTLE_TRY(const Loops q, split(s, {.loop = own[outer + 1], .factors = {kInfer, columns}}));
    FETTLE_TRY_VOID(reorder(s, {.loops = {r[0], q[0], r[1], q[1]}}));
    for (const LoopRef loop : {r[0], q[0]}) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
    return tensorize(s, {.target = r[1], .intrinsic = by}).map([](BlockRef) {});
  };
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = j[1]}));
  FETTLE_TRY_VOID(in_tiles(back, 4, 16, 8, "mma_m16n8k16_f16_store"));

  const std::vector<std::pair<int64_t, const char*>> threads = {
      {warps_m, "threadIdx.z"}, {warps_n, "threadIdx.y"}, {32, "threadIdx.x"}};
  for (const int64_t read : {0, 1}) {
    FETTLE_TRY(const BlockRef copy, fetch(s, c, read, k[0], 5, threads, 8));
    if (t.swizzle) {
      FETTLE_TRY(const Loops own, get_loops(s, {.block = copy}));
      FETTLE_TRY_VOID(annotate(s, {.target = own.back(), .key = kSwizzleKey}));
    } else {
      FETTLE_TRY_VOID(storage_align(s, {.block = copy, .buffer_index = 0, .axis = 0, .factor = 64, .offset = 8}));
    }
    if (t.stages == 2) FETTLE_TRY_VOID(double_buffer(s, {.block = copy, .write_index = 0}));
  }
  if (t.stages > 2)
    FETTLE_TRY_VOID(software_pipeline(s, {.loop = k[0], .stages = {0, 0, t.stages - 1}, .order = {0, 1, 2}}));
  FETTLE_TRY(const BlockRef a, cache_read(s, {.block = c, .read_index = 0, .scope = "fragment"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = a, .loop = k[1]}));
  FETTLE_TRY_VOID(in_tiles(a, 6, 16, 16, "mma_m16n8k16_f16_load_a"));
  FETTLE_TRY(const BlockRef b, cache_read(s, {.block = c, .read_index = 1, .scope = "fragment"}));
  FETTLE_TRY_VOID(compute_at(s, {.block = b, .loop = k[1]}));
  FETTLE_TRY_VOID(in_tiles(b, 6, 16, 8, "mma_m16n8k16_f16_load_b"));
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {.block = c, .loop = k[0]}));
  FETTLE_TRY(const Loops tile, get_loops(s, {.block = init}));
  FETTLE_TRY_VOID(tensorize(s, {.target = tile[tile.size() - 2], .intrinsic = "mma_m16n8k16_f16_fill"}));
  return tensorize(s, {.target = i[3], .intrinsic = "mma_m16n8k16_f16"}).map([](BlockRef) {});
}

Func tensor_gemm_program(int64_t m, int64_t n, int64_t k, const std::string& type, const std::string& result,
                         bool transposed) {
  const std::string b = transposed ? "vj, vk" : "vk, vj";
  const std::string shape = transposed ? fmt::format("{}, {}", n, k) : fmt::format("{}, {}", k, n);
  const bool rounds = result != "f32";
  std::string text = fmt::format("func gemm(A: {0}[{1}, {3}], B: {0}[{4}], {5}: {6}[{1}, {2}] output):\n", type, m, n,
                                 k, shape, rounds ? "D" : "C", result);
  if (rounds) text += fmt::format("  alloc C: f32[{}, {}]\n", m, n);
  text += fmt::format(R"(  for i in {0}:
    for j in {1}:
      for k in {2}:
        block C(vi: spatial[{0}] = i, vj: spatial[{1}] = j, vk: reduce[{2}] = k):
          reads A[vi, vk], B[{3}]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + f32(A[vi, vk]) * f32(B[{3}])
)",
                      m, n, k, b);
  if (rounds)
    text += fmt::format(R"(  for i in {0}:
    for j in {1}:
      block D(vi: spatial[{0}] = i, vj: spatial[{1}] = j):
        reads C[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = {2}(C[vi, vj])
)",
                        m, n, result);
  const auto made = parse_func(text);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

}  // namespace fettle::bench
