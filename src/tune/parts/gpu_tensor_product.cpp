#include "tune/parts/gpu_tensor_product.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/gpu_grid.h"
#include "tune/parts/gpu_product_steps.h"
#include "tune/parts/gpu_warp_tiles.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kMmaRows = 16, kMmaColumns = 8, kMmaTerms = 16;
constexpr int64_t kLanes = 8;  // elements of an access of 16 bytes

class WarpTiledProduct {
 public:
  WarpTiledProduct(Schedule& s, Decider& decider, const Target& target, BlockRef block)
      : s_(s), decider_(decider), target_(target), p_(s, block) {}

  Result<Finished> run() {
    FETTLE_TRY_VOID(p_.read());
    type_ = p_.factors[GpuProduct::kLeft].buffer->dtype == kF16 ? "f16" : "bf16";
    FETTLE_TRY_VOID(pick());
    FETTLE_TRY_VOID(p_.pad(tiles_.rows, tiles_.columns, tiles_.terms * tiles_.parts));
    if (tiles_.parts > 1) FETTLE_TRY_VOID(split_terms());
    FETTLE_TRY_VOID(cut());
    for (const size_t factor : {GpuProduct::kLeft, GpuProduct::kRight}) FETTLE_TRY_VOID(fetch(factor));
    FETTLE_TRY_VOID(pipeline());
    for (const size_t factor : {GpuProduct::kLeft, GpuProduct::kRight}) FETTLE_TRY_VOID(load(factor));
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = p_.block, .loop = steps_}));
    FETTLE_TRY(const Loops tile, get_loops(s_, {.block = init}));
    FETTLE_TRY_VOID(p_.finish(init));
    FETTLE_TRY_VOID(by_intrinsic(tile[tile.size() - 2], "_fill"));
    FETTLE_TRY_VOID(p_.finish(p_.block));
    FETTLE_TRY_VOID(by_intrinsic(tile_, ""));
    return std::move(p_.finished);
  }

 private:
  Result<> by_intrinsic(LoopRef loop, const std::string& what) {
    return tensorize(s_, {.target = loop, .intrinsic = fmt::format("mma_m16n8k16_{}{}", type_, what)})
        .map([](BlockRef) {});
  }

  Result<> pick() {
    const bool along_terms = p_.factors[GpuProduct::kRight].along_terms;
    const std::vector<int64_t> all = fastest_warp_tilings({.batch = p_.batch(),
                                                           .rows = p_.rows(),
                                                           .columns = p_.columns(),
                                                           .terms = p_.terms(),
                                                           .right_along_terms = along_terms},
                                                          target_);
    FETTLE_TRY(const int64_t chosen, decider_.pick(s_, {"tile", all}));
    tiles_ = warp_tiling(chosen);
    return {};
  }

  // Each part of the terms has its own sums; they are added up, with what is done to the result, by a second launch.
  Result<> split_terms() {
    const BlockRef whole = p_.block;
    FETTLE_TRY(const Loops l, get_loops(s_, {.block = whole}));
    FETTLE_TRY(const Loops parts, split(s_, {.loop = l[p_.roles.term], .factors = {tiles_.parts, kInfer}}));
    FETTLE_TRY(const BlockRef sums, rfactor(s_, {.block = whole, .loop = parts[0], .factor_axis = 0}));
    FETTLE_TRY(const BlockRef back, p_.reader("local"));
    FETTLE_TRY(const Loops own, get_loops(s_, {.block = back}));
    FETTLE_TRY(const Grid grid, deal_out(s_, target_, own, {.threads = 128}));
    FETTLE_TRY_VOID(compute_at(s_, {.block = whole, .loop = grid.thread}));
    FETTLE_TRY(const Loops adding, loops_below(s_, whole, grid.thread));
    FETTLE_TRY_VOID(unroll(s_, {.loop = adding.back()}));
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = whole, .loop = adding.back()}));
    for (const BlockRef done : {back, whole, init}) FETTLE_TRY_VOID(p_.finish(done));
    p_.block = sums;
    ++p_.row_dimension;
    ++p_.column_dimension;
    return {};
  }

  // blocks; warps; steps of terms; some terms; tiles of mma; elements
  Result<> cut() {
    FETTLE_TRY(const BlockRef back, tiles_.parts > 1 ? copy_of_sums() : p_.reader("fragment"));
    FETTLE_TRY_VOID(lay_out_sums());
    const int64_t warps_m = tiles_.rows / tiles_.warp_rows, warps_n = tiles_.columns / tiles_.warp_columns;
    FETTLE_TRY(const Loops l, get_loops(s_, {.block = p_.block}));
    FETTLE_TRY(const Loops i, split(s_, {.loop = l[p_.roles.row],
                                         .factors = {kInfer, warps_m, tiles_.warp_rows / kMmaRows, kMmaRows}}));
    // Where the terms are split, a loop over the parts stands before the terms.
    const auto later = [&](size_t loop) { return loop + (tiles_.parts > 1 && loop > p_.roles.term ? 1 : 0); };
    FETTLE_TRY(const Loops j,
               split(s_, {.loop = l[later(p_.roles.column)],
                          .factors = {kInfer, warps_n, tiles_.warp_columns / kMmaColumns, kMmaColumns}}));
    const size_t term = p_.roles.term + (tiles_.parts > 1 ? 1 : 0);
    FETTLE_TRY(const Loops k, split(s_, {.loop = l[term], .factors = {kInfer, tiles_.terms / kMmaTerms, kMmaTerms}}));
    Loops blocks;
    for (const size_t b : p_.roles.batch) blocks.push_back(l[later(b)]);
    if (tiles_.parts > 1) blocks.push_back(l[p_.roles.term]);
    blocks.insert(blocks.end(), {i[0], j[0]});
    Loops order = blocks;
    order.insert(order.end(), {i[1], j[1], k[0], k[1], i[2], j[2], i[3], j[3], k[2]});
    FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = blocks}));
    FETTLE_TRY_VOID(bind(s_, {.loop = all, .thread_axis = "blockIdx.x"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = i[1], .thread_axis = "threadIdx.z"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = j[1], .thread_axis = "threadIdx.y"}));
    for (const LoopRef loop : {k[1], i[2], j[2]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    steps_ = k[0];
    some_terms_ = k[1];
    tile_ = i[3];
    return store_back(back, j[1]);
  }

  Result<BlockRef> copy_of_sums() {
    return cache_write(s_, {.block = p_.block, .write_index = 0, .scope = "fragment"});
  }

  Result<> lay_out_sums() {
    FETTLE_TRY(const BlockNode* product, block_node(s_, p_.block));
    const size_t rank = product->writes.front().buffer->shape.size();
    if (p_.row_dimension + 2 == rank && p_.column_dimension + 1 == rank) return {};
    FETTLE_TRY_VOID(lay_out(p_.block, rank, p_.row_dimension, p_.column_dimension));
    p_.row_dimension = rank - 2;
    p_.column_dimension = rank - 1;
    return {};
  }

  // Each lane has pairs of columns of the sums, in rows 8 apart.
  Result<> store_back(BlockRef back, LoopRef warp) {
    FETTLE_TRY(const BlockNode* product, block_node(s_, p_.block));
    const Buffer sums = product->writes.front().buffer;
    FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = back, .loop = warp}));
    FETTLE_TRY(const BlockNode* node, block_node(s_, back));
    const auto read = loads_of(node->body, sums.get());
    if (read.empty()) return fail(ErrorCode::E230, node->name + " does not read the sums");
    const auto iter_of = [&](size_t dimension) {
      return std::ranges::find_if(
                 node->iters, [&](const IterVar& iter) { return iter.var.get() == read.front()[dimension].get(); }) -
             node->iters.begin();
    };
    const auto row = iter_of(p_.row_dimension), column = iter_of(p_.column_dimension);
    const auto n_iters = static_cast<std::ptrdiff_t>(node->iters.size());
    FETTLE_TRY(const Loops own, loops_below(s_, back, warp));
    if (row == n_iters || column == n_iters || std::ssize(own) != n_iters)
      return fail(ErrorCode::E230, node->name + " does not read the sums row by row");
    FETTLE_TRY(const Loops r, split(s_, {.loop = own[static_cast<size_t>(row)], .factors = {kInfer, 2, 8}}));
    FETTLE_TRY(const Loops q, split(s_, {.loop = own[static_cast<size_t>(column)], .factors = {kInfer, 4, 2}}));
    FETTLE_TRY_VOID(reorder(s_, {.loops = {r[2], q[1], r[0], r[1], q[0], q[2]}}));
    FETTLE_TRY(const LoopRef lane, fuse(s_, {.loops = {r[2], q[1]}}));
    FETTLE_TRY_VOID(bind(s_, {.loop = lane, .thread_axis = "threadIdx.x"}));
    for (const LoopRef loop : {r[0], r[1], q[0]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = q[2]}));
    return p_.finish(back);
  }

  // A tile of a factor in shared memory, filled by all threads.
  Result<> fetch(size_t which) {
    FETTLE_TRY(const BlockRef copy, p_.fetch(which, steps_));
    FETTLE_TRY_VOID(batch_outside(copy, p_.factors[which]));
    FETTLE_TRY(const Loops own, loops_below(s_, copy, steps_));
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = own}));
    const int64_t warps_m = tiles_.rows / tiles_.warp_rows, warps_n = tiles_.columns / tiles_.warp_columns;
    FETTLE_TRY(const Loops parts,
               split(s_, {.loop = all, .factors = {kInfer, warps_m, warps_n, 32, kLanes}, .tail = Tail::kGuard}));
    FETTLE_TRY_VOID(bind(s_, {.loop = parts[1], .thread_axis = "threadIdx.z"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = parts[2], .thread_axis = "threadIdx.y"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = parts[3], .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(unroll(s_, {.loop = parts[0]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = parts[4]}));
    FETTLE_TRY_VOID(annotate(s_, {.target = parts[4], .key = kAsyncCopyKey}));
    FETTLE_TRY_VOID(annotate(s_, {.target = parts[4], .key = kSwizzleKey}));
    copies_[which] = copy;
    return p_.finish(copy);
  }

  // A copy has its matrices one behind the other.
  Result<> batch_outside(BlockRef copy, GpuProduct::Factor& factor) {
    const size_t first = std::min(factor.dimension, factor.term_dimension),
                 second = std::max(factor.dimension, factor.term_dimension);
    if (first + 2 == factor.rank) return {};
    FETTLE_TRY_VOID(lay_out(copy, factor.rank, first, second));
    const bool terms_last = factor.dimension == first;
    factor.dimension = factor.rank - (terms_last ? 2 : 1);
    factor.term_dimension = factor.rank - (terms_last ? 1 : 2);
    FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
    factor.buffer = made->writes.front().buffer;
    return {};
  }
  // These dimensions of what the block makes become the last two.
  Result<> lay_out(BlockRef copy, size_t rank, size_t first, size_t second) {
    IndexMap map;
    for (size_t d = 0; d < rank; ++d) map.inputs.push_back(make_var(fmt::format("d{}", d)));
    for (size_t d = 0; d < rank; ++d)
      if (d != first && d != second) map.outputs.push_back(Expr(map.inputs[d]));
    map.outputs.insert(map.outputs.end(), {Expr(map.inputs[first]), Expr(map.inputs[second])});
    return transform_layout(s_, {.block = copy, .buffer_index = 0, .buffer_index_type = "write", .index_map = map});
  }

  // Steps of terms are copied ahead while others are used.
  Result<> pipeline() {
    FETTLE_TRY(const Stmt loop, s_.loop(steps_));
    const int64_t* steps = as_int(loop.as<ForNode>()->extent);
    const int64_t stages = steps ? std::min(WarpTiling::kMostStages, *steps) : 1;
    if (stages < 2) return {};
    if (stages == 2) {
      for (const BlockRef copy : copies_) FETTLE_TRY_VOID(double_buffer(s_, {.block = copy, .write_index = 0}));
      return {};
    }
    return software_pipeline(s_, {.loop = steps_, .stages = {0, 0, stages - 1}, .order = {0, 1, 2}});
  }

  // Tiles of a factor in the registers of a warp, from memory as it is: rows, or columns.
  Result<> load(size_t which) {
    const GpuProduct::Factor& factor = p_.factors[which];
    const bool left = which == GpuProduct::kLeft;
    FETTLE_TRY(const int64_t at, read_index_of(s_, p_.block, factor.buffer));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = p_.block, .read_index = at, .scope = "fragment"}));
    FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = some_terms_}));
    const size_t first = left ? factor.dimension : factor.term_dimension,
                 second = left ? factor.term_dimension : factor.dimension;
    const bool transposes = first > second;
    if (transposes) FETTLE_TRY_VOID(lay_out(copy, factor.rank, first, second));
    FETTLE_TRY(const Loops own, loops_below(s_, copy, some_terms_));
    if (own.size() != factor.rank) return fail(ErrorCode::E230, "a factor has other loops than dimensions");
    FETTLE_TRY(const Loops r, split(s_, {.loop = own[first], .factors = {kInfer, 16}}));
    FETTLE_TRY(const Loops q, split(s_, {.loop = own[second], .factors = {kInfer, left ? kMmaTerms : kMmaColumns}}));
    FETTLE_TRY_VOID(reorder(s_, {.loops = {r[0], q[0], r[1], q[1]}}));
    for (const LoopRef loop : {r[0], q[0]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    FETTLE_TRY_VOID(p_.finish(copy));
    return by_intrinsic(r[1], left ? (transposes ? "_load_a_km" : "_load_a") : (transposes ? "_load_b_nk" : "_load_b"));
  }

  Schedule& s_;
  Decider& decider_;
  const Target& target_;
  GpuProduct p_;
  std::string type_;
  WarpTiling tiles_{};
  BlockRef copies_[2];
  LoopRef steps_{}, some_terms_{}, tile_{};
};

}  // namespace

bool suits_tensor_cores(const Target& target, const BlockStructure& block) {
  if (target.kind != "cuda" || !target.gpu || target.gpu->tensor_core_tflops == 0 || block.loads.size() != 2)
    return false;
  const DType type = block.loads[0].buffer->dtype;
  if (!(type == kF16 || type == kBF16) || !(block.loads[1].buffer->dtype == type)) return false;
  return block.store.buffer->dtype == kF32 && product_loops(block).has_value();
}

Result<Finished> gpu_tensor_product(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  return WarpTiledProduct(s, decider, target, block).run();
}

}  // namespace fettle
