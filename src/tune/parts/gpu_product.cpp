#include "tune/parts/gpu_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "schedule/reformulation.h"
#include "tune/parts/gpu_implicit_product.h"
#include "tune/parts/inline.h"
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

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

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

// The loops of a block beneath that one.
Result<Loops> below(Schedule& s, BlockRef block, LoopRef loop) {
  FETTLE_TRY(const Loops all, get_loops(s, {.block = block}));
  FETTLE_TRY(const Var around, s.loop_var(loop));
  for (size_t i = 0; i < all.size(); ++i) {
    FETTLE_TRY(const Var var, s.loop_var(all[i]));
    if (var == around) return Loops(all.begin() + static_cast<std::ptrdiff_t>(i) + 1, all.end());
  }
  return fail(ErrorCode::E230, "the block is not under the loop");
}

class Product {
 public:
  Product(Schedule& s, Decider& decider, const Target& target, BlockRef block)
      : s_(s), decider_(decider), target_(target), block_(block) {}

  Result<Finished> run() {
    FETTLE_TRY_VOID(read());
    FETTLE_TRY_VOID(pick_tiles());
    FETTLE_TRY_VOID(pad());
    FETTLE_TRY_VOID(cut());
    for (const size_t factor : {left_, right_}) FETTLE_TRY_VOID(fetch(factor));
    for (const size_t factor : {left_, right_}) FETTLE_TRY_VOID(load(factor));
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = block_, .loop = steps_}));
    FETTLE_TRY_VOID(finish(init));
    FETTLE_TRY_VOID(finish(block_));
    return finished_;
  }

 private:
  struct Factor {
    Buffer buffer;
    size_t rank = 0, dimension = 0;  // that of the rows, or of the columns
    bool along_terms = false;        // terms are contiguous
  };

  Result<> finish(BlockRef block) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block));
    finished_.push_back(node->name);
    return {};
  }

  Result<> read() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    const auto structure = block_structure(s_.func(), *node);
    const auto loops = structure ? product_loops(*structure) : std::nullopt;
    if (!loops) return fail(ErrorCode::E230, node->name + " is no product of matrices of constant extents");
    roles_ = *loops;
    extents_ = structure->extents;
    row_dimension_ = static_cast<size_t>(structure->store.dimension_of(structure->vars[roles_.row]));
    column_dimension_ = static_cast<size_t>(structure->store.dimension_of(structure->vars[roles_.column]));
    for (const size_t load : {roles_.left, roles_.right}) {
      const AccessPattern& access = structure->loads[load];
      Factor& factor = factors_.emplace_back();
      factor.buffer = access.buffer;
      factor.rank = access.indices.size();
      factor.dimension =
          static_cast<size_t>(access.dimension_of(structure->vars[load == roles_.left ? roles_.row : roles_.column]));
      factor.along_terms = access.strides[roles_.term] == 1;
    }
    return {};
  }

  Result<> pick_tiles() {
    int64_t batch = 1;
    for (const size_t b : roles_.batch) batch *= extents_[b];
    const int64_t rows = extents_[roles_.row], columns = extents_[roles_.column];
    const int64_t units = target_.gpu ? target_.gpu->multiprocessors : 1;
    std::vector<int64_t> numbers;
    for (size_t t = 0; t < std::size(kTiles); ++t) numbers.push_back(static_cast<int64_t>(t));
    const auto cost = [&](int64_t t) { return cost_of(kTiles[t], batch, rows, columns, units); };
    const size_t best = static_cast<size_t>(std::ranges::min_element(numbers, {}, cost) - numbers.begin());
    FETTLE_TRY(const int64_t chosen, decider_.pick(s_, {"tile", numbers, best}));
    tiles_ = kTiles[chosen];
    return {};
  }

  // Extents become multiples of the tiles', by copies that are worked out where shared memory is filled.
  Result<> pad() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    std::vector<int64_t> padding(node->iters.size(), 1);
    const auto structure = block_structure(s_.func(), *node);
    bool needed = false;
    for (size_t i = 0; i < node->iters.size(); ++i)
      for (const auto& [loop, multiple] : {std::pair{roles_.row, tiles_.rows}, std::pair{roles_.column, tiles_.columns},
                                           std::pair{roles_.term, tiles_.terms}})
        if (node->iters[i].binding.get() == structure->vars[loop].get()) {
          padding[i] = multiple;
          needed |= extents_[loop] % multiple != 0;
        }
    if (!needed) return {};
    FETTLE_TRY(const std::vector<BlockRef> copies, pad_einsum(s_, {.block = block_, .padding = padding}));
    for (const BlockRef copy : copies) {
      FETTLE_TRY(const BlockNode* made, block_node(s_, copy));
      const Region& written = made->writes.front();
      bool is_factor = false;
      for (Factor& factor : factors_)
        if (read_region(*made, factor.buffer.get())) {
          factor.buffer = written.buffer;
          is_factor = true;
        }
      if (is_factor) padded_.push_back(made->name);
    }
    return {};
  }

  // Who takes the sums from the threads' registers: what reads them element by element, as one block, or a copy.
  Result<BlockRef> reader() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_));
    const Buffer sums = node->writes.front().buffer;
    for (Schedule before = s_; !is_param(s_.func(), sums.get()); before = s_) {
      const std::vector<const BlockNode*> readers = consumers_of(s_.func().root(), sums.get());
      if (readers.size() != 1) break;
      if (!is_elementwise(*readers.front(), sums) && !as_matrix(readers.front()->name, sums)) break;
      const std::string name = consumers_of(s_.func().root(), sums.get()).front()->name;
      const Buffer made = find_block(s_.func()->body, name)->writes.front().buffer;
      const auto next = consumers_of(s_.func().root(), made.get());
      const bool goes_on = !is_param(s_.func(), made.get()) && next.size() == 1 &&
                           (is_elementwise(*next.front(), made) || as_matrix(next.front()->name, made));
      if (goes_on && try_inline(s_, name)) continue;
      FETTLE_TRY_VOID(set_scope(s_, {.block = block_, .index = 0, .scope = "local"}));
      return get_block(s_, {.name = name});
    }
    return cache_write(s_, {.block = block_, .write_index = 0, .scope = "local"});
  }

  // The iterators of who reads rows of the result as several dimensions become rows.
  bool as_matrix(const std::string& name, const Buffer& sums) {
    Schedule trial = s_;
    const BlockNode* node = find_block(trial.func()->body, name);
    IndexMap map;
    Expr rows = 0;
    for (const IterVar& iter : node->iters) {
      const int64_t* extent = as_int(iter.extent);
      if (!extent) return false;
      const Var var = make_var(iter.var->name);
      map.inputs.push_back(var);
      if (&iter != &node->iters.back()) rows = rows * *extent + Expr(var);
    }
    if (map.inputs.size() < 2) return false;
    map.outputs = {simplify(rows), Expr(map.inputs.back())};
    const auto block = get_block(trial, {.name = name});
    if (!block || !transform_block_layout(trial, {.block = *block, .index_map = map})) return false;
    if (!is_elementwise(*find_block(trial.func()->body, name), sums)) return false;
    s_ = std::move(trial);
    return true;
  }

  // Each element is made of that one of the buffer whose indices are its iterators.
  static bool is_elementwise(const BlockNode& block, const Buffer& buffer) {
    if (block.init || !single_store(block)) return false;
    for (const IterVar& iter : block.iters)
      if (iter.kind != IterKind::kSpatial) return false;
    const auto loads = loads_of(block.body, buffer.get());
    return std::ranges::all_of(loads, [&](const std::vector<Expr>& indices) {
      return std::ranges::all_of(indices, [&](const Expr& index) {
        return as_int(index) ||
               std::ranges::any_of(block.iters, [&](const IterVar& i) { return i.var.get() == index.get(); });
      });
    });
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
      const bool row = d == row_dimension_, column = d == column_dimension_;
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
    FETTLE_TRY(const BlockRef back, reader());
    FETTLE_TRY_VOID(gather_sums());
    FETTLE_TRY(const Loops l, get_loops(s_, {.block = block_}));
    FETTLE_TRY(const Loops i, split(s_, {.loop = l[roles_.row], .factors = {kInfer, groups_m_, threads_m, kGroup}}));
    FETTLE_TRY(const Loops j, split(s_, {.loop = l[roles_.column], .factors = {kInfer, groups_n_, threads_n, kGroup}}));
    FETTLE_TRY(const Loops k, split(s_, {.loop = l[roles_.term], .factors = {kInfer, tiles_.terms / kGroup, kGroup}}));
    Loops blocks;
    for (const size_t b : roles_.batch) blocks.push_back(l[b]);
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
    FETTLE_TRY(const Loops own, below(s_, back, j[2]));
    for (size_t d = 0; d + 1 < own.size(); ++d) FETTLE_TRY_VOID(unroll(s_, {.loop = own[d]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = own.back()}));
    return finish(back);
  }

  // A tile of a factor in shared memory, filled by all threads.
  Result<> fetch(size_t which) {
    Factor& factor = factors_[which];
    FETTLE_TRY(const int64_t at, read_index_of(s_, block_, factor.buffer));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = block_, .read_index = at, .scope = "shared"}));
    FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = steps_}));
    const Buffer source = factor.buffer;
    FETTLE_TRY_VOID(inline_copies(source));
    FETTLE_TRY(const Loops own, below(s_, copy, steps_));
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
    factor.buffer = made->writes.front().buffer;
    return finish(copy);
  }

  // Paddings and matrices are worked out where shared memory is filled.
  Result<> inline_copies(Buffer source) {
    while (true) {
      const auto writers = producers_of(s_.func().root(), source.get());
      if (writers.size() != 1) return {};
      const BlockNode& writer = *writers.front();
      const bool is_padding = std::ranges::find(padded_, writer.name) != padded_.end();
      if ((!is_padding && role_of(writer) != kMatrixRole) || writer.reads.empty()) return {};
      const Buffer next = writer.reads.front().buffer;
      const std::string name = writer.name;
      if (!try_inline(s_, name)) return fail(ErrorCode::E230, name + " cannot be worked out where it is read");
      source = next;
    }
  }

  // What a thread needs of it for some terms, or for one, in its registers.
  Result<> load(size_t which) {
    const Factor& factor = factors_[which];
    FETTLE_TRY(const int64_t at, read_index_of(s_, block_, factor.buffer));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = block_, .read_index = at, .scope = "local"}));
    const LoopRef loop = factor.along_terms ? some_terms_ : term_;
    FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = loop}));
    const int64_t step = which == left_ ? tiles_.rows / groups_m_ : tiles_.columns / groups_n_;
    FETTLE_TRY_VOID(gather_groups(s_, copy, factor.rank, factor.dimension, step));
    FETTLE_TRY(const Loops own, below(s_, copy, loop));
    for (size_t d = 0; d + 1 < own.size(); ++d) FETTLE_TRY_VOID(unroll(s_, {.loop = own[d]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = own.back()}));
    return finish(copy);
  }

  Schedule& s_;
  Decider& decider_;
  const Target& target_;
  const BlockRef block_;
  static constexpr size_t left_ = 0, right_ = 1;
  ProductLoops roles_;
  std::vector<int64_t> extents_;
  std::vector<Factor> factors_;
  Tiles tiles_{};
  int64_t groups_m_ = 1, groups_n_ = 1;
  size_t row_dimension_ = 0, column_dimension_ = 0;  // of the result
  std::vector<std::string> padded_;
  LoopRef steps_{}, some_terms_{}, term_{};
  Finished finished_;
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
