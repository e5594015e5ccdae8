#include "cost/predict/canonical_micro_kernels.h"

#include <algorithm>

#include "schedule/primitives.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle {

Result<Func> canonical_micro_kernel(const CanonicalMicroKernel& micro_kernel, int64_t lanes) {
  const int64_t width = micro_kernel.vectors * lanes;
  // Rows in place lie an odd number of lines apart.
  int64_t distance = (micro_kernel.depth + 15) / 16 * 16;
  if (distance / 16 % 2 == 0) distance += 16;
  if (micro_kernel.mode == RowMode::kConflict) distance = std::max(distance, micro_kernel.conflict_bytes / 4);
  const bool packed = micro_kernel.mode == RowMode::kPacked;
  const bool moving = micro_kernel.mode == RowMode::kConflict;
  te::Tensor a = packed ? te::placeholder({micro_kernel.depth, micro_kernel.rows}, kF32, "A")
                        : te::placeholder({moving ? micro_kernel.repeats : 1, micro_kernel.rows, distance}, kF32, "A");
  te::Tensor b = te::placeholder({micro_kernel.panels, micro_kernel.depth, width}, kF32, "B");
  te::ReduceAxis k = te::reduce_axis(micro_kernel.depth, "k");
  const auto element = [&](Expr r, Expr p, Expr i, Expr j) {
    return te::sum((packed ? a(k, i) : a(moving ? r : Expr(0), i, k)) * b(p, k, j), {k});
  };
  te::Tensor c = micro_kernel.far_rows
                     ? te::compute({micro_kernel.repeats, micro_kernel.rows, micro_kernel.panels, width},
                                   [&](const std::vector<Var>& v) { return element(v[0], v[2], v[1], v[3]); }, "C",
                                   {"r", "i", "p", "j"})
                     : te::compute({micro_kernel.repeats, micro_kernel.panels, micro_kernel.rows, width},
                                   [&](const std::vector<Var>& v) { return element(v[0], v[1], v[2], v[3]); }, "C",
                                   {"r", "p", "i", "j"});
  Schedule s(te::create_func("micro_kernel", {a, b}, {c}));
  FETTLE_TRY(BlockRef block, get_block(s, {.name = "C"}));
  std::vector<BlockRef> copies;
  if (micro_kernel.phases == 1) {
    FETTLE_TRY(BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
    copies = {back};
  }
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {.block = block}));  // r p i j k
  if (micro_kernel.far_rows) std::swap(loops[1], loops[2]);
  FETTLE_TRY(std::vector<LoopRef> j, split(s, {.loop = loops[3], .factors = {kInfer, lanes}}));
  const LoopRef outer = micro_kernel.far_rows ? loops[1] : loops[0], tile = micro_kernel.far_rows ? loops[0] : loops[1];
  LoopRef depth = loops[4];
  if (micro_kernel.phases == 1) {
    FETTLE_TRY_VOID(reorder(s, {.loops = {outer, tile, depth, loops[2], j[0], j[1]}}));
  } else {
    FETTLE_TRY(std::vector<LoopRef> parts, split(s, {.loop = depth, .factors = {micro_kernel.phases, kInfer}}));
    depth = parts[1];
    if (micro_kernel.far_rows)
      FETTLE_TRY_VOID(reorder(s, {.loops = {parts[0], outer, tile, depth, loops[2], j[0], j[1]}}));
    else
      FETTLE_TRY_VOID(reorder(s, {.loops = {outer, parts[0], tile, depth, loops[2], j[0], j[1]}}));
  }
  FETTLE_TRY_VOID(unroll(s, {.loop = loops[2]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = j[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = j[1]}));
  if (micro_kernel.phases == 1) {
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = copies[0], .loop = tile}));
  } else {
    FETTLE_TRY(copies, cache_inplace(s, {.block = block, .write_index = 0, .loop = tile}));
  }
  for (const BlockRef copy : copies) {
    FETTLE_TRY(std::vector<LoopRef> own, get_loops(s, {.block = copy}));
    FETTLE_TRY(std::vector<LoopRef> columns, split(s, {.loop = own.back(), .factors = {kInfer, lanes}}));
    FETTLE_TRY_VOID(unroll(s, {.loop = own[own.size() - (micro_kernel.far_rows ? 3 : 2)]}));
    FETTLE_TRY_VOID(unroll(s, {.loop = columns[0]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = columns[1]}));
  }
  if (micro_kernel.phases == 1)
    FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = depth}).map([](BlockRef) {}));
  return s.func();
}

Result<Func> canonical_copy(int64_t elems, int64_t lanes, int threads) {
  te::Tensor a = te::placeholder({elems}, kF32, "A");
  te::Tensor b = te::compute({elems}, [&](const std::vector<Var>& i) { return a(i); }, "B", {"i"});
  Schedule s(te::create_func("copy", {a}, {b}));
  FETTLE_TRY(BlockRef block, get_block(s, {.name = "B"}));
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {.block = block}));
  FETTLE_TRY(std::vector<LoopRef> parts, split(s, {.loop = loops[0], .factors = {threads, kInfer, 4, lanes}}));
  if (threads > 1) FETTLE_TRY_VOID(parallel(s, {.loop = parts[0]}));
  FETTLE_TRY_VOID(unroll(s, {.loop = parts[2]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[3]}));
  return s.func();
}

Result<Func> canonical_read(int64_t elems, int64_t lanes) {
  const int64_t width = kReadVectors * lanes;
  te::Tensor a = te::placeholder({elems / width, width}, kF32, "A");
  te::ReduceAxis i = te::reduce_axis(elems / width, "i");
  te::Tensor b = te::compute({width}, [&](const std::vector<Var>& j) { return te::sum(a(i, j[0]), {i}); }, "B", {"j"});
  Schedule s(te::create_func("read", {a}, {b}));
  FETTLE_TRY(BlockRef block, get_block(s, {.name = "B"}));
  FETTLE_TRY(BlockRef back, cache_write(s, {.block = block, .write_index = 0, .scope = kScopeRegister}));
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {.block = block}));  // j i
  FETTLE_TRY(std::vector<LoopRef> columns, split(s, {.loop = loops[0], .factors = {kInfer, lanes}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {loops[1], columns[0], columns[1]}}));
  FETTLE_TRY(std::vector<LoopRef> own, get_loops(s, {.block = back}));
  FETTLE_TRY(std::vector<LoopRef> stored, split(s, {.loop = own[0], .factors = {kInfer, lanes}}));
  for (const auto& parts : {columns, stored}) {
    FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  }
  FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = loops[1]}).map([](BlockRef) {}));
  return s.func();
}

}  // namespace fettle
