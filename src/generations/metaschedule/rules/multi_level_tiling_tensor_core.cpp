#include <algorithm>

#include "generations/ansor/sketch/conditions.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/primitives.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr int64_t kWarp = 32;

// One nest over all elements of a copy, by the block's warps.
Result<> by_warps(Schedule& s, BlockRef block, size_t outer, const IntRef& warps) {
  FETTLE_TRY(const auto loops, get_loops(s, {block}));
  FETTLE_TRY(const LoopRef all, fuse(s, {.loops = {loops.begin() + static_cast<std::ptrdiff_t>(outer), loops.end()}}));
  FETTLE_TRY(const auto parts, split(s, {.loop = all, .factors = {kInfer, warps, kWarp}, .tail = Tail::kGuard}));
  FETTLE_TRY_VOID(bind(s, {.loop = parts[1], .thread_axis = "threadIdx.y"}));
  return bind(s, {.loop = parts[2], .thread_axis = "threadIdx.x"});
}

//   for i, j, k: C   →   for i_0 blockIdx.y, j_0 blockIdx.x: for k_0: copies of A and B to shared memory, by all
//   threads
//                          for i_1 threadIdx.y: for j_1: the intrinsic's tile;   then C is copied back
Result<Schedule> tiled(const Schedule& before, const std::string& name, const TensorIntrinsicDef& intrinsic) {
  Schedule s = before;
  s.set_address_prefix("multi_level_tiling_tensor_core/" + name);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  const Func meaning = meaning_of(intrinsic);
  const TileNest nest = tile_nest(meaning.root().body);
  FETTLE_TRY(const auto loops, get_loops(s, {block}));
  if (loops.size() != 3 || nest.loops.size() != 3)
    return fail(ErrorCode::E235, "no product of two matrices", "multi_level_tiling_tensor_core");
  FETTLE_TRY(const BlockRef back, cache_write(s, {.block = block, .scope = "shared"}));
  // Tiles of the intrinsic; of each dimension so many to a block, its rows one a warp.
  std::vector<std::vector<LoopRef>> parts(3);
  std::vector<ValueRef> warps;
  for (size_t i = 0; i < 3; ++i) {
    FETTLE_TRY(const auto tiles, split(s, {.loop = loops[i], .factors = {kInfer, *as_int(nest.loops[i]->extent)}}));
    if (i == 2) {
      parts[i] = tiles;
      continue;
    }
    FETTLE_TRY(const auto sizes,
               sample_perfect_tile(s, {.loop = tiles[0], .n = 2, .max_innermost = 4, .name = i == 0 ? "i" : "j"}));
    FETTLE_TRY(const auto levels, split(s, {.loop = tiles[0], .factors = {sizes[0], sizes[1]}}));
    if (i == 0) warps = sizes;
    parts[i] = {levels[0], levels[1], tiles[1]};
  }
  const auto& [i, j, k] = std::tie(parts[0], parts[1], parts[2]);
  FETTLE_TRY_VOID(reorder(s, {.loops = {i[0], j[0], k[0], i[1], j[1], i[2], j[2], k[1]}}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {.block = back, .loop = j[0]}));
  FETTLE_TRY_VOID(by_warps(s, back, 2, IntRef(warps[1])));
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {.block = block, .loop = k[0]}));
  FETTLE_TRY_VOID(by_warps(s, init, 2, IntRef(warps[1])));
  for (const int64_t read : {0, 1}) {
    FETTLE_TRY(const BlockRef copy, cache_read(s, {.block = block, .read_index = read, .scope = "shared"}));
    FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = k[0]}));
    FETTLE_TRY_VOID(by_warps(s, copy, 3, IntRef(warps[1])));
  }
  FETTLE_TRY_VOID(bind(s, {.loop = i[0], .thread_axis = "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {.loop = j[0], .thread_axis = "blockIdx.x"}));
  FETTLE_TRY_VOID(bind(s, {.loop = i[1], .thread_axis = "threadIdx.y"}));
  FETTLE_TRY_VOID(tensorize(s, {.target = i[2], .intrinsic = std::string(intrinsic.name)}));
  return s;
}

}  // namespace

ScheduleRule multi_level_tiling_tensor_core(std::string intrinsic) {
  return {"multi_level_tiling_tensor_core",
          [intrinsic = std::move(intrinsic)](const TuneContext& context, const Schedule& s,
                                             const std::string& name) -> Result<std::vector<Schedule>> {
            const TensorIntrinsicDef* def = find_tensor_intrinsic(intrinsic);
            if (!def || def->threads != 32 || !def->available(*context.target) || is_tiled(s.func(), name) ||
                !has_data_reuse(s.func(), *find_block(s.func()->body, name)))
              return std::vector{s};
            auto made = tiled(s, name, *def);
            if (!made) return std::vector{s};  // another extent, statement or type
            return std::vector{std::move(*made)};
          }};
}

}  // namespace fettle
