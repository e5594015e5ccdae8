#include "tune/parts/gpu_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/ceil_div.h"
#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/gpu_product_steps.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// A tile of the result for a block of threads, steps of the terms that shared memory holds, and each thread's part.
struct Tiles {
  int64_t rows, columns, terms, thread_rows, thread_columns;
  int64_t blocks = 0;  // for which a multiprocessor is to have registers; 0: as many as there are
  int64_t threads() const { return rows / thread_rows * (columns / thread_columns); }
};

constexpr Tiles kTiles[] = {{128, 128, 16, 8, 8, 2}, {64, 64, 16, 4, 4}, {32, 32, 16, 4, 4}};
constexpr int64_t kGroup = 4;  // neighbours of 4 bytes: one access

// About how long all takes, in tiles of a multiprocessor: waves of blocks, each as long as its products, beside what of
// them is surplus. Small tiles read their operands more often.
double cost_of(const Tiles& tiles, int64_t batch, int64_t rows, int64_t columns, int64_t units) {
  const auto blocks = static_cast<double>(batch * ceil_div(rows, tiles.rows) * ceil_div(columns, tiles.columns));
  const double waves = std::max(1.0, blocks / static_cast<double>(units));
  const auto products = static_cast<double>(tiles.rows * tiles.columns);
  const double reads = 1.0 + 24.0 / static_cast<double>(tiles.rows) + 24.0 / static_cast<double>(tiles.columns);
  return waves * products * reads;
}

// A dimension becomes two, where it stands: which group of neighbours, which of them.
Result<> gather_groups(Schedule& s, BlockRef copy, size_t rank, size_t dimension, int64_t step) {
  IndexMap map;
  for (size_t d = 0; d < rank; ++d) {
    const Var var = make_var(fmt::format("d{}", d));
    map.inputs.push_back(var);
    if (d == dimension) map.outputs.push_back(floordiv(Expr(var), Expr(step)));
    map.outputs.push_back(d == dimension ? floormod(Expr(var), Expr(step)) : Expr(var));
  }
  return transform_layout(s, {.block = copy, .index_map = map});
}

class Product {
 public:
  Product(Schedule& s, Decider& decider, const Target& target, BlockRef block)
      : s_(s), decider_(decider), target_(target), block_(block), product_(s, block) {}

  Result<Finished> run() {
    FETTLE_TRY_VOID(product_.read());
    FETTLE_TRY_VOID(pick_tiles());
    FETTLE_TRY_VOID(product_.pad(tiles_.rows, tiles_.columns, tiles_.terms));
    FETTLE_TRY_VOID(cut());
    for (const size_t factor : {GpuProduct::kLeft, GpuProduct::kRight}) FETTLE_TRY_VOID(fetch(factor));
    for (const size_t factor : {GpuProduct::kLeft, GpuProduct::kRight}) FETTLE_TRY_VOID(load(factor));
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = block_, .loop = steps_}));
    FETTLE_TRY_VOID(product_.finish(init));
    FETTLE_TRY_VOID(product_.finish(block_));
    return product_.finished;
  }

 private:
  Result<> pick_tiles() {
    const int64_t batch = product_.batch(), rows = product_.rows(), columns = product_.columns();
    const int64_t units = target_.gpu ? target_.gpu->multiprocessors : 1;
    std::vector<int64_t> numbers;
    for (size_t t = 0; t < std::size(kTiles); ++t) numbers.push_back(static_cast<int64_t>(t));
    const auto cost = [&](int64_t t) { return cost_of(kTiles[t], batch, rows, columns, units); };
    const size_t best = static_cast<size_t>(std::ranges::min_element(numbers, {}, cost) - numbers.begin());
    FETTLE_TRY(const int64_t chosen, decider_.pick(s_, {"tile", numbers, best}));
    tiles_ = kTiles[chosen];
    return {};
  }

  // The sums of a thread, in groups of neighbours, next to one another in its memory.
  Result<> gather_sums() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    const size_t rank = node->writes.front().buffer->shape.size();
    IndexMap map;
    std::vector<Expr> groups, places;
    for (size_t d = 0; d < rank; ++d) {
      const Var var = make_var(fmt::format("d{}", d));
      map.inputs.push_back(var);
      const bool row = d == product_.row_dimension, column = d == product_.column_dimension;
      const int64_t step = row ? tiles_.rows / groups_m_ : tiles_.columns / groups_n_;
      if (row || column) {
        groups.push_back(floordiv(Expr(var), Expr(step)));
        places.push_back(floormod(Expr(var), Expr(step)));
      } else {
        map.outputs.push_back(Expr(var));
      }
    }
    map.outputs.insert(map.outputs.end(), groups.begin(), groups.end());
    map.outputs.insert(map.outputs.end(), places.begin(), places.end());
    return transform_layout(s_, {.block = block_, .buffer_index = 0, .buffer_index_type = "write", .index_map = map});
  }

  // blocks; threads; steps of terms; virtual threads; terms; elements
  Result<> cut() {
    const int64_t threads_m = tiles_.rows / tiles_.thread_rows, threads_n = tiles_.columns / tiles_.thread_columns;
    groups_m_ = tiles_.thread_rows / kGroup;
    groups_n_ = tiles_.thread_columns / kGroup;
    FETTLE_TRY(const BlockRef back, product_.reader("local"));
    FETTLE_TRY_VOID(gather_sums());
    FETTLE_TRY(const Loops l, get_loops(s_, {.block = block_}));
    FETTLE_TRY(const Loops i,
               split(s_, {.loop = l[product_.roles.row], .factors = {kInfer, groups_m_, threads_m, kGroup}}));
    FETTLE_TRY(const Loops j,
               split(s_, {.loop = l[product_.roles.column], .factors = {kInfer, groups_n_, threads_n, kGroup}}));
    FETTLE_TRY(const Loops k,
               split(s_, {.loop = l[product_.roles.term], .factors = {kInfer, tiles_.terms / kGroup, kGroup}}));
    Loops blocks;
    for (const size_t b : product_.roles.batch) blocks.push_back(l[b]);
    blocks.insert(blocks.end(), {i[0], j[0]});
    Loops order = blocks;
    order.insert(order.end(), {i[2], j[2], k[0], i[1], j[1], k[1], k[2], i[3], j[3]});
    FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = blocks}));
    FETTLE_TRY_VOID(bind(s_, {.loop = all, .thread_axis = "blockIdx.x"}));
    if (tiles_.blocks > 1) FETTLE_TRY_VOID(annotate(s_, {.target = all, .key = kMinBlocksKey, .value = tiles_.blocks}));
    FETTLE_TRY_VOID(bind(s_, {.loop = i[2], .thread_axis = "threadIdx.y"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = j[2], .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = i[1], .thread_axis = "vthread.y"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = j[1], .thread_axis = "vthread.x"}));
    for (const LoopRef loop : {k[2], i[3], j[3]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    steps_ = k[0];
    some_terms_ = k[1];
    term_ = k[2];
    FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = back, .loop = j[2]}));
    FETTLE_TRY(const Loops own, loops_below(s_, back, j[2]));
    for (size_t d = 0; d + 1 < own.size(); ++d) FETTLE_TRY_VOID(unroll(s_, {.loop = own[d]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = own.back()}));
    return product_.finish(back);
  }

  // A tile of a factor in shared memory, filled by all threads.
  Result<> fetch(size_t which) {
    GpuProduct::Factor& factor = product_.factors[which];
    FETTLE_TRY(const BlockRef copy, product_.fetch(which, steps_));
    FETTLE_TRY(const Loops own, loops_below(s_, copy, steps_));
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = own}));
    const int64_t threads_m = tiles_.rows / tiles_.thread_rows, threads_n = tiles_.columns / tiles_.thread_columns;
    FETTLE_TRY(const Loops parts,
               split(s_, {.loop = all, .factors = {kInfer, threads_m, threads_n, kGroup}, .tail = Tail::kGuard}));
    FETTLE_TRY_VOID(bind(s_, {.loop = parts[1], .thread_axis = "threadIdx.y"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = parts[2], .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(unroll(s_, {.loop = parts[0]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = parts.back()}));
    FETTLE_TRY_VOID(annotate(s_, {.target = parts.back(), .key = kAsyncCopyKey}));
    if (factor.along_terms && factor.rank >= 2)
      FETTLE_TRY_VOID(storage_align(s_, {.block = copy,
                                         .buffer_index = 0,
                                         .axis = static_cast<int64_t>(factor.rank) - 2,
                                         .factor = 32,
                                         .offset = 4}));
    FETTLE_TRY_VOID(double_buffer(s_, {.block = copy, .write_index = 0}));
    FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
    factor.buffer = made->writes.front().buffer;  // laid out otherwise
    return product_.finish(copy);
  }

  // What a thread needs of it for some terms, or for one, in its registers.
  Result<> load(size_t which) {
    const GpuProduct::Factor& factor = product_.factors[which];
    FETTLE_TRY(const int64_t at, read_index_of(s_, block_, factor.buffer));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = block_, .read_index = at, .scope = "local"}));
    const LoopRef loop = factor.along_terms ? some_terms_ : term_;
    FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = loop}));
    const int64_t step = which == GpuProduct::kLeft ? tiles_.rows / groups_m_ : tiles_.columns / groups_n_;
    FETTLE_TRY_VOID(gather_groups(s_, copy, factor.rank, factor.dimension, step));
    FETTLE_TRY(const Loops own, loops_below(s_, copy, loop));
    for (size_t d = 0; d + 1 < own.size(); ++d) FETTLE_TRY_VOID(unroll(s_, {.loop = own[d]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = own.back()}));
    return product_.finish(copy);
  }

  Schedule& s_;
  Decider& decider_;
  const Target& target_;
  const BlockRef block_;
  GpuProduct product_;
  Tiles tiles_{};
  int64_t groups_m_ = 1, groups_n_ = 1;
  LoopRef steps_{}, some_terms_{}, term_{};
};

}  // namespace

std::optional<ProductLoops> product_loops(const BlockStructure& block) {
  if (!is_matrix_product(block)) return {};
  ProductLoops roles;
  std::optional<size_t> row, column, term;
  for (size_t i = 0; i < block.n_iters(); ++i) {
    const bool in_left = block.loads[0].touches(i), in_right = block.loads[1].touches(i);
    for (const AccessPattern& load : block.loads)
      if (load.guarded || (load.touches(i) && load.dimension_of(block.vars[i]) < 0)) return {};
    if (block.reduce[i]) {
      if (term || !in_left || !in_right) return {};
      term = i;
    } else if (block.store.dimension_of(block.vars[i]) < 0 || (!in_left && !in_right)) {
      return {};
    } else if (in_left && in_right) {
      roles.batch.push_back(i);
    } else {
      std::optional<size_t>& role = in_left ? row : column;
      if (role) return {};
      role = i;
    }
  }
  if (!row || !column || !term) return {};
  roles.row = *row;
  roles.column = *column;
  roles.term = *term;
  roles.left = 0;
  roles.right = 1;
  if (block.store.strides[roles.row] == 1 && block.store.strides[roles.column] != 1) {
    std::swap(roles.row, roles.column);
    std::swap(roles.left, roles.right);
  }
  return roles;
}

bool fills_tiles(int64_t rows, int64_t columns, int64_t terms) {
  constexpr int64_t kLeast = 8;
  return rows >= kLeast && columns >= kLeast && terms >= kLeast;
}

Result<Finished> gpu_product(Schedule& s, const Target& target, Decider& decider, BlockRef block) {
  return Product(s, decider, target, block).run();
}

}  // namespace fettle
