#include "tune/parts/gpu_warp_group_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/annotations.h"
#include "lower/device/bulk_copy.h"
#include "lower/device/passes.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/gpu_implicit_product.h"
#include "tune/parts/gpu_product_steps.h"
#include "tune/parts/structure.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kRowsOfProduct = 64, kTermsOfProduct = 16;  // of one wgmma
constexpr int64_t kAlignedBytes = 16;                         // that the copy engine needs rows to lie apart

// In memory of all, its rows at multiples of what the copy engine needs. Matrices that are worked out are not.
bool is_copied_in_bulk(const Func& func, const Buffer& buffer) {
  if (buffer->scope != kScopeGlobal || !buffer->strides.empty() || buffer->shape.size() < 2) return false;
  const int64_t* last = as_int(buffer->shape.back());
  if (!last || *last * buffer->dtype.element_bytes() % kAlignedBytes != 0) return false;
  const auto writers = producers_of(func.root(), buffer.get());
  return std::ranges::none_of(writers, [](const BlockNode* writer) { return role_of(*writer) == kMatrixRole; });
}

// The iterators of the block, in some order, are the indices of what it writes, so that tiles of them are rectangles.
bool writes_rectangles(const Func& func, const BlockNode& block) {
  const StoreNode* stored = single_store(block);
  if (!stored || !is_copied_in_bulk(func, stored->buffer)) return false;
  const int bytes = stored->buffer->dtype.element_bytes();
  return (bytes == 2 || bytes == 4) && std::ranges::all_of(stored->indices, [&](const Expr& index) {
           return as_int(index) ||
                  std::ranges::any_of(block.iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
         });
}

// Nothing where it is no product, or has one row: no loop can be seen to move along it.
std::optional<ProductShape> shape_of(const Func& func, const BlockNode& block) {
  const auto structure = block_structure(func, block);
  const auto loops = structure ? product_loops(*structure) : std::nullopt;
  if (!loops || structure->store.buffer->dtype != kF32) return {};
  const AccessPattern &left = structure->loads[loops->left], &right = structure->loads[loops->right];
  const DType type = left.buffer->dtype;
  if ((type != kF16 && type != kBF16) || right.buffer->dtype != type || left.strides[loops->term] != 1) return {};
  const bool right_along_terms = right.strides[loops->term] == 1;
  if (!right_along_terms && right.strides[loops->column] != 1) return {};
  ProductShape shape = {.rows = structure->extents[loops->row],
                        .columns = structure->extents[loops->column],
                        .terms = structure->extents[loops->term],
                        .right_along_terms = right_along_terms};
  for (const size_t b : loops->batch) shape.batch *= structure->extents[b];
  return shape;
}

class WarpGroupProduct {
 public:
  WarpGroupProduct(Schedule& s, const Target& target, Decider& decider, BlockRef block)
      : s_(s), target_(target), decider_(decider), block_(block), product_(s, block) {}

  Result<Finished> run() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    const auto shape = warp_group_product(s_.func(), *node, target_);
    if (!shape) return fail(ErrorCode::E230, node->name + " is no product for warp groups");
    FETTLE_TRY_VOID(product_.read());
    type_ = product_.factors[0].buffer->dtype == kF16 ? "f16" : "bf16";
    FETTLE_TRY_VOID(pick_tiling(*shape));
    FETTLE_TRY_VOID(product_.pad(t_.rows_of_cluster(), t_.columns_of_cluster(), WarpGroupTiling::kTermsOfStep));
    FETTLE_TRY(const BlockRef back, product_.reader(kScopeFragment));
    FETTLE_TRY_VOID(cut());
    FETTLE_TRY_VOID(store_results(back));
    for (const size_t which : {GpuProduct::kLeft, GpuProduct::kRight}) {
      FETTLE_TRY(const BlockRef copy, product_.fetch(which, steps_));
      FETTLE_TRY(const Loops own, loops_below(s_, copy, steps_));
      FETTLE_TRY_VOID(annotate(s_, {.target = own.front(), .key = kBulkCopyKey}));
      FETTLE_TRY_VOID(product_.finish(copy));
    }
    FETTLE_TRY_VOID(software_pipeline(s_, {.loop = steps_, .stages = {0, 0, t_.stages - 1}, .order = {0, 1, 2}}));
    FETTLE_TRY_VOID(annotate(s_, {.target = steps_, .key = kSpecializeWarpsKey}));
    FETTLE_TRY_VOID(multiply());
    return product_.finished;
  }

 private:
  Result<> pick_tiling(const ProductShape& shape) {
    std::vector<int64_t> numbers;
    for (size_t n = 0; n < warp_group_tilings().size(); ++n) numbers.push_back(static_cast<int64_t>(n));
    FETTLE_TRY(const int64_t chosen, decider_.pick(s_, {"tile", numbers, fastest_tilings(shape, target_).front()}));
    t_ = warp_group_tilings()[static_cast<size_t>(chosen)];
    return {};
  }

  // tiles; warp groups; steps; products of a step, along the terms and one above the other; elements
  Result<> cut() {
    FETTLE_TRY(const Loops l, get_loops(s_, {.block = block_}));
    const ProductLoops& roles = product_.roles;
    FETTLE_TRY(const int64_t rows, loop_extent(s_, l[roles.row]));
    const int64_t across = t_.along_columns ? t_.cluster : 1;
    const int64_t together = rows_together(rows / t_.rows);
    const int64_t high = t_.rows / t_.groups / kRowsOfProduct;
    FETTLE_TRY(const Loops i,
               split(s_, {.loop = l[roles.row], .factors = {kInfer, together, t_.groups, high, kRowsOfProduct}}));
    FETTLE_TRY(const Loops j, split(s_, {.loop = l[roles.column], .factors = {kInfer, across, t_.columns}}));
    FETTLE_TRY(const Loops k,
               split(s_, {.loop = l[roles.term],
                          .factors = {kInfer, WarpGroupTiling::kTermsOfStep / kTermsOfProduct, kTermsOfProduct}}));
    Loops tiles;
    for (const size_t b : roles.batch) tiles.push_back(l[b]);
    tiles.insert(tiles.end(), {i[0], j[0], i[1], j[1]});
    FETTLE_TRY_VOID(reorder(s_, {.loops = concatenated({tiles, {i[2], k[0], k[1], i[3], i[4], j[2], k[2]}})}));
    FETTLE_TRY(const LoopRef tile, fuse(s_, {.loops = tiles}));
    FETTLE_TRY_VOID(bind(s_, {.loop = tile, .thread_axis = "blockIdx.x"}));
    const int64_t all = (target_.gpu ? target_.gpu->multiprocessors : 1) * t_.blocks / t_.cluster * t_.cluster;
    FETTLE_TRY_VOID(annotate(s_, {.target = tile, .key = kPersistentKey, .value = all}));
    if (t_.cluster > 1) FETTLE_TRY_VOID(annotate(s_, {.target = tile, .key = kClusterKey, .value = t_.cluster}));
    if (t_.blocks > 1) FETTLE_TRY_VOID(annotate(s_, {.target = tile, .key = kMinBlocksKey, .value = t_.blocks}));
    FETTLE_TRY_VOID(bind(s_, {.loop = i[2], .thread_axis = "threadIdx.y"}));
    for (const LoopRef loop : {k[1], i[3]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    group_ = i[2];
    steps_ = k[0];
    rows_of_product_ = i[4];
    return {};
  }

  // Rows of tiles that are gone through together, column by column, so that what they read stays in L2.
  int64_t rows_together(int64_t tiles) const {
    const int64_t cluster = t_.along_columns ? 1 : t_.cluster;
    int64_t together = std::min<int64_t>(t_.cluster > 1 ? kFewRows : kManyRows, tiles);
    while (tiles % together != 0 || together % cluster != 0) --together;
    return together;
  }

  // Each thread has pairs of neighbours. They go to shared memory, a panel of columns at a time, and the copy engine
  // stores the panel; what it cannot store goes straight to memory.
  Result<> store_results(BlockRef back) {
    FETTLE_TRY_VOID(product_.finish(back));
    FETTLE_TRY(const BlockNode* node, block_node(s_, back));
    const bool staged = writes_rectangles(s_.func(), *node);
    FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = back, .loop = group_}));
    FETTLE_TRY(const Loops own, several(back, group_));
    if (own.size() != 2) return fail(ErrorCode::E230, "the result is read in no rectangles");
    FETTLE_TRY(const int64_t rows, loop_extent(s_, own[0]));
    FETTLE_TRY(const int64_t width, loop_extent(s_, own[1]));
    if (rows != t_.rows / t_.groups || width != t_.columns)
      return fail(ErrorCode::E230, "the result is read in another order than it is made in");
    LoopRef columns = own[1];
    if (staged) {
      FETTLE_TRY(const BlockNode* storing, block_node(s_, back));
      const int64_t panel = kPanelBytes / storing->writes.front().buffer->dtype.element_bytes();
      FETTLE_TRY(const Loops panels, split(s_, {.loop = own[1], .factors = {kInfer, panel}}));
      FETTLE_TRY_VOID(reorder(s_, {.loops = {panels[0], own[0], panels[1]}}));
      FETTLE_TRY_VOID(unroll(s_, {.loop = panels[0]}));
      columns = panels[1];
      FETTLE_TRY(const BlockRef out, cache_write(s_, {.block = back, .write_index = 0, .scope = "shared"}));
      FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = out, .loop = panels[0]}));
      FETTLE_TRY(const Loops stored, loops_below(s_, out, panels[0]));
      FETTLE_TRY_VOID(annotate(s_, {.target = stored.front(), .key = kBulkCopyKey}));
      FETTLE_TRY_VOID(product_.finish(out));
    }
    FETTLE_TRY(const Loops r, split(s_, {.loop = own[0], .factors = {kInfer, 4, 2, 8}}));
    FETTLE_TRY(const Loops q, split(s_, {.loop = columns, .factors = {kInfer, 4, 2}}));
    FETTLE_TRY_VOID(reorder(s_, {.loops = {r[1], r[3], q[1], r[0], r[2], q[0], q[2]}}));
    FETTLE_TRY(const LoopRef lane, fuse(s_, {.loops = {r[1], r[3], q[1]}}));
    FETTLE_TRY_VOID(bind(s_, {.loop = lane, .thread_axis = "threadIdx.x"}));
    for (const LoopRef loop : {r[0], r[2], q[0]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    return vectorize(s_, {.loop = q[2]});
  }

  // The loops beneath that one which have more than one iteration.
  Result<Loops> several(BlockRef block, LoopRef loop) {
    FETTLE_TRY(Loops own, loops_below(s_, block, loop));
    Loops result;
    for (const LoopRef inner : own) {
      FETTLE_TRY(const int64_t extent, loop_extent(s_, inner));
      if (extent != 1) result.push_back(inner);
    }
    return result;
  }

  Result<> multiply() {
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = block_, .loop = steps_}));
    FETTLE_TRY_VOID(product_.finish(init));
    FETTLE_TRY_VOID(product_.finish(block_));
    FETTLE_TRY(const Loops fill, get_loops(s_, {.block = init}));
    const std::string shape = fmt::format("wgmma_m{}n{}", kRowsOfProduct, t_.columns);
    FETTLE_TRY_VOID(tensorize(s_, {.target = fill[fill.size() - 2], .intrinsic = shape + "_fill"}));
    const std::string name = fmt::format("{}k{}_{}{}", shape, kTermsOfProduct, type_,
                                         product_.factors[GpuProduct::kRight].along_terms ? "_nk" : "");
    return tensorize(s_, {.target = rows_of_product_, .intrinsic = name}).map([](BlockRef) {});
  }

  // Rows of tiles: with clusters, and without.
  static constexpr int64_t kFewRows = 4, kManyRows = 16;

  Schedule& s_;
  const Target& target_;
  Decider& decider_;
  const BlockRef block_;
  GpuProduct product_;
  WarpGroupTiling t_{};
  std::string type_;
  LoopRef group_{}, steps_{}, rows_of_product_{};
};

}  // namespace

std::optional<ProductShape> warp_group_product(const Func& func, const BlockNode& block, const Target& target) {
  if (!has_bulk_copies(target) || !block.init) return {};
  for (const Region& read : block.reads)
    if (!is_copied_in_bulk(func, read.buffer)) return {};
  return shape_of(func, block);
}

Result<Finished> gpu_warp_group_product(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  return WarpGroupProduct(s, target, decider, block).run();
}

}  // namespace fettle
