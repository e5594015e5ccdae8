#include "tune/parts/gpu_attention.h"

#include <algorithm>

#include <fmt/format.h>

#include "ir/annotations.h"
#include "ir/query.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/structure.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

constexpr int64_t kRows = 16, kColumns = 8, kDepth = 16;  // of a product of a warp
constexpr int64_t kRowLanes = 8, kColumnLanes = 4;        // of a warp, that have its sums
constexpr int64_t kNeighbours = 2;                        // columns that a lane has side by side
constexpr int64_t kCopyBytes = 16;
constexpr int64_t kManyQueries = 1024, kMostWarps = 8;

class WarpPass {
 public:
  WarpPass(Schedule& s, const AttentionParts& parts, const WarpAttentionTile& tile, DType type)
      : s_(s), parts_(parts), tile_(tile), type_(type) {}

  Result<Finished> run() {
    FETTLE_TRY_VOID(reformulated());
    FETTLE_TRY_VOID(reduced_in_lanes());
    FETTLE_TRY_VOID(placed());
    FETTLE_TRY_VOID(joined());
    FETTLE_TRY_VOID(bound());
    FETTLE_TRY_VOID(dealt_out());
    FETTLE_TRY_VOID(scores_in_tiles());
    FETTLE_TRY_VOID(product_in_tiles());
    if (parts_.is_causal && tile_.keys < parts_.keys) FETTLE_TRY_VOID(skip_hidden(s_, {.loop = step_}));
    if (tile_.stages > 1) FETTLE_TRY_VOID(pipelined());
    Finished all;
    for (const BlockNode* block : blocks_of(s_.func().root())) all.push_back(block->name);
    return all;
  }

 private:
  struct Nest {
    Loops around;     // heads, tiles of queries, warps
    LoopRef step;     // blocks of keys
    Loops rest;       // keys of a block, or elements of a value
    LoopRef queries;  // of a warp
  };

  Result<> reformulated() {
    FETTLE_TRY(const BlockRef product, get_block(s_, {.name = parts_.product}));
    FETTLE_TRY(scores_, get_block(s_, {.name = parts_.scores}));
    FETTLE_TRY(const Blocks states,
               reformulate(s_, {.block = product, .kind = "online_reduction", .numbers = {tile_.keys}}));
    block_max_ = states[0], run_max_ = states[1], powers_ = states[2], block_sum_ = states[3];
    run_sum_ = states[4], run_out_ = states[6];
    FETTLE_TRY(const Blocks last, reformulate(s_, {.block = states[7], .kind = "shared_reciprocal"}));
    inverse_ = last[0], out_ = last[1];
    FETTLE_TRY(const Blocks narrow, reformulate(s_, {.block = states[5], .kind = "narrow_factor"}));
    shares_ = narrow[0], block_out_ = narrow[1];
    if (parts_.finish.empty()) return {};
    FETTLE_TRY_VOID(compute_inline(s_, {.block = out_}));
    FETTLE_TRY(out_, get_block(s_, {.name = parts_.finish}));
    return {};
  }

  // Each lane reduces what it has of a row; then the lanes of the row.
  Result<> reduced_in_lanes() {
    for (const auto& [block, part] : {std::pair{block_max_, &lane_max_}, std::pair{block_sum_, &lane_sum_}}) {
      FETTLE_TRY(const Loops loops, by_iterator(block));
      FETTLE_TRY(const Loops keys, split(s_, {.loop = loops.back(), .factors = {kInfer, kColumnLanes, kNeighbours}}));
      FETTLE_TRY(*part, rfactor(s_, {.block = block, .loop = keys[1], .factor_axis = -1}));
    }
    return {};
  }

  Result<> placed() {
    for (const BlockRef block : {lane_max_, lane_sum_})
      FETTLE_TRY_VOID(set_scope(s_, {.block = block, .index = 0, .scope = "warp"}));
    for (const BlockRef block : {block_max_, run_max_, powers_, block_sum_, run_sum_, run_out_, inverse_}) {
      FETTLE_TRY(const BlockNode* node, block_node(s_, block));
      for (int64_t w = 0, n = static_cast<int64_t>(node->writes.size()); w < n; ++w)
        FETTLE_TRY_VOID(set_scope(s_, {.block = block, .index = w, .scope = "local"}));
    }
    for (const BlockRef block : {scores_, shares_, block_out_})
      FETTLE_TRY_VOID(set_scope(s_, {.block = block, .index = 0, .scope = "fragment"}));
    return {};
  }

  // The states of a block of keys in one nest; what they are made of joins them.
  Result<> joined() {
    FETTLE_TRY(const Nest of_max, by_steps(run_max_));
    FETTLE_TRY(const Nest of_powers, by_steps(powers_));
    FETTLE_TRY(const Nest of_sum, by_steps(run_sum_));
    FETTLE_TRY(const Nest of_out, by_steps(run_out_));
    for (const BlockRef block : {block_sum_, lane_sum_})
      FETTLE_TRY_VOID(compute_at(s_, {.block = block, .loop = of_sum.step, .preserve_unit_loops = false}));
    FETTLE_TRY(const Loops columns, split(s_, {.loop = of_out.rest[0], .factors = {kInfer, tile_.columns}}));
    columns_ = columns[0];
    FETTLE_TRY_VOID(compute_at(s_, {.block = block_out_, .loop = columns_, .preserve_unit_loops = false}));
    FETTLE_TRY_VOID(compute_at(s_, {.block = shares_, .loop = of_out.step, .preserve_unit_loops = false}));
    FETTLE_TRY(step_, merge(s_, {.loops = {of_max.step, of_powers.step, of_sum.step, of_out.step}}));
    around_ = of_max.around;
    for (const BlockRef block : {block_max_, lane_max_, scores_})
      FETTLE_TRY_VOID(compute_at(s_, {.block = block, .loop = step_, .preserve_unit_loops = false}));
    for (const BlockRef block : {inverse_, out_})
      FETTLE_TRY_VOID(reverse_compute_at(s_, {.block = block, .loop = around_.back(), .preserve_unit_loops = false}));
    return {};
  }

  Result<> bound() {
    FETTLE_TRY_VOID(bind(s_, {.loop = around_.back(), .thread_axis = "threadIdx.z"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = around_[around_.size() - 2], .thread_axis = "blockIdx.x"}));
    if (around_.size() == 2) return {};
    FETTLE_TRY(const LoopRef heads, fuse(s_, {.loops = {around_.begin(), around_.end() - 2}}));
    return bind(s_, {.loop = heads, .thread_axis = "blockIdx.y"});
  }

  // Elements go to the lanes that have them.
  Result<> dealt_out() {
    for (const BlockRef block :
         {block_max_, lane_max_, run_max_, powers_, block_sum_, lane_sum_, run_sum_, shares_, run_out_, inverse_, out_})
      FETTLE_TRY_VOID(to_lanes(block));
    return scalars_in_registers();
  }

  // Loops below those that several blocks share, by what they move: rows of the tile, its columns, or neither.
  Result<> to_lanes(BlockRef block) {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block));
    const std::string name = node->name;
    const LoopRef at = block == inverse_ || block == out_ ? around_.back() : block == run_out_ ? columns_ : step_;
    FETTLE_TRY(const Loops own, below(block, at));
    Loops order, unrolled;
    LoopRef last{};
    bool vectorizes = false;
    Loops rows, columns;
    const bool in_parts = block == lane_max_ || block == lane_sum_;
    Expr part;  // that the reduction was split into
    for (const IterVar& iter : node->iters)
      if (in_parts && iter.var.get() == node->init.as<StoreNode>()->indices.back().get()) part = iter.binding;
    for (const LoopRef& loop : own) {
      FETTLE_TRY(const int64_t extent, loop_extent(s_, loop));
      FETTLE_TRY(const Var var, s_.loop_var(loop));
      const bool is_row = rows.empty() && extent == kRows;
      if (part && uses_var(part, var.get())) {
        columns = {LoopRef(), loop, LoopRef()};
      } else if (is_row) {
        FETTLE_TRY(rows, split(s_, {.loop = loop, .factors = {kInfer, kRowLanes}}));
      } else if (extent > kColumnLanes * kNeighbours && extent % (kColumnLanes * kNeighbours) == 0 && !in_parts) {
        FETTLE_TRY(columns, split(s_, {.loop = loop, .factors = {kInfer, kColumnLanes, kNeighbours}}));
      } else {
        unrolled.push_back(loop);
      }
    }
    if (rows.empty()) return fail(ErrorCode::E230, name + " has no rows of a warp");
    order.push_back(rows[1]);
    if (!columns.empty()) order.push_back(columns[1]);
    order.push_back(rows[0]);
    order.insert(order.end(), unrolled.begin(), unrolled.end());
    unrolled.push_back(rows[0]);
    if (columns.size() == 3 && s_.loop(columns[0])) {
      order.push_back(columns[0]);
      unrolled.push_back(columns[0]);
      order.push_back(columns[2]);
      last = columns[2];
      vectorizes = block == shares_ || block == out_;
      if (!vectorizes) unrolled.push_back(last);
    }
    FETTLE_TRY_VOID(reorder(s_, {.loops = order}));
    FETTLE_TRY_VOID(bind(s_, {.loop = rows[1], .thread_axis = "threadIdx.y"}));
    if (!columns.empty()) FETTLE_TRY_VOID(bind(s_, {.loop = columns[1], .thread_axis = "threadIdx.x"}));
    for (const LoopRef& loop : unrolled) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    return vectorizes ? vectorize(s_, {.loop = last}) : Result<>();
  }

  // A scale, say, is read once.
  Result<> scalars_in_registers() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, lane_max_));
    const std::vector<Region> reads = node->reads;
    for (const Region& read : reads) {
      if (!is_param(s_.func(), read.buffer.get()) || !is_scalar(*read.buffer)) continue;
      FETTLE_TRY(const int64_t at, read_index_of(s_, lane_max_, read.buffer));
      FETTLE_TRY(
          const BlockRef copy,
          cache_read(s_, {.block = lane_max_, .read_index = at, .scope = "local", .consumer_blocks = {powers_}}));
      FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = around_.back(), .preserve_unit_loops = false}));
    }
    return {};
  }
  static bool is_scalar(const BufferNode& buffer) {
    return std::ranges::all_of(buffer.shape, [](const Expr& extent) { return is_one(extent); });
  }

  // A copy of what the block reads of this buffer in shared memory, made at the loop by all threads.
  Result<BlockRef> fetched(BlockRef block, const Buffer& from, LoopRef at) {
    FETTLE_TRY(const int64_t read, read_index_of(s_, block, from));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = block, .read_index = read, .scope = "shared"}));
    FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = at, .preserve_unit_loops = false}));
    FETTLE_TRY(const Loops own, below(copy, at));
    FETTLE_TRY(const LoopRef all, fuse(s_, {.loops = own}));
    const int64_t lanes = kCopyBytes / type_.element_bytes();
    FETTLE_TRY(const Loops l, split(s_, {.loop = all,
                                         .factors = {kInfer, tile_.warps, kRowLanes, kColumnLanes, lanes},
                                         .tail = Tail::kGuard}));
    FETTLE_TRY_VOID(bind(s_, {.loop = l[1], .thread_axis = "threadIdx.z"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = l[2], .thread_axis = "threadIdx.y"}));
    FETTLE_TRY_VOID(bind(s_, {.loop = l[3], .thread_axis = "threadIdx.x"}));
    FETTLE_TRY_VOID(unroll(s_, {.loop = l[0]}));
    FETTLE_TRY_VOID(vectorize(s_, {.loop = l[4]}));
    FETTLE_TRY_VOID(annotate(s_, {.target = l[4], .key = kAsyncCopyKey}));
    FETTLE_TRY_VOID(annotate(s_, {.target = l[4], .key = kSwizzleKey}));
    return copy;
  }
  // Tiles of it in the registers of a warp, made at the loop: rows and columns as the iterators move.
  Result<> in_fragments(BlockRef block, const Buffer& from, LoopRef at, const Var& row, const Var& column,
                        int64_t width, const char* load) {
    FETTLE_TRY(const size_t rows, dimension_of(block, from, row));
    FETTLE_TRY(const size_t columns, dimension_of(block, from, column));
    FETTLE_TRY(const int64_t read, read_index_of(s_, block, from));
    FETTLE_TRY(const BlockRef copy, cache_read(s_, {.block = block, .read_index = read, .scope = "fragment"}));
    if (rows > columns) {
      IndexMap map;
      for (size_t d = 0; d < from->shape.size(); ++d) map.inputs.push_back(make_var(fmt::format("d{}", d)));
      for (const Var& var : map.inputs) map.outputs.push_back(var);
      std::swap(map.outputs[rows], map.outputs[columns]);
      FETTLE_TRY_VOID(transform_layout(s_, {.block = copy, .index_map = map}));
    }
    FETTLE_TRY(Loops own, below(copy, at));
    if (own.empty()) {
      FETTLE_TRY_VOID(compute_at(s_, {.block = copy, .loop = at}));
      FETTLE_TRY(own, below(copy, at));
    }
    const size_t first = own.size() - from->shape.size();
    return tiles_of(own[first + rows], own[first + columns], kRows, width, load);
  }
  Result<> tiles_of(LoopRef rows, LoopRef columns, int64_t height, int64_t width, const char* by) {
    FETTLE_TRY(const Loops r, split(s_, {.loop = rows, .factors = {kInfer, height}}));
    FETTLE_TRY(const Loops c, split(s_, {.loop = columns, .factors = {kInfer, width}}));
    FETTLE_TRY_VOID(reorder(s_, {.loops = {r[0], c[0], r[1], c[1]}}));
    for (const LoopRef& loop : {r[0], c[0]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    return tensorize(s_, {.target = r[1], .intrinsic = named(by)}).map([](BlockRef) {});
  }

  // depth, columns, and the tile: [16 rows, 8 columns, 16 deep]; returns the loop over depth.
  Result<LoopRef> cut_product(BlockRef block, LoopRef rows, LoopRef columns, LoopRef depth) {
    FETTLE_TRY(const Loops c, split(s_, {.loop = columns, .factors = {kInfer, kColumns}}));
    FETTLE_TRY(const Loops k, split(s_, {.loop = depth, .factors = {kInfer, kDepth}}));
    FETTLE_TRY_VOID(reorder(s_, {.loops = {k[0], c[0], rows, c[1], k[1]}}));
    for (const LoopRef& loop : {k[0], c[0]}) FETTLE_TRY_VOID(unroll(s_, {.loop = loop}));
    FETTLE_TRY(const BlockRef init, decompose_reduction(s_, {.block = block, .loop = k[0]}));
    FETTLE_TRY(const Loops fill, get_loops(s_, {.block = init}));
    FETTLE_TRY_VOID(tensorize(s_, {.target = fill[fill.size() - 2], .intrinsic = named("_fill")}));
    return k[0];
  }

  Result<> scores_in_tiles() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, scores_));
    const auto roles = roles_of(*node, parts_.query, parts_.key);
    FETTLE_TRY(const Loops own, by_iterator(scores_));
    const Var row = node->iters[roles.row].var, column = node->iters[roles.column].var;
    const Var deep = node->iters[roles.depth].var;
    const Buffer keys = buffer_with(*node, column);
    FETTLE_TRY(const LoopRef depth, cut_product(scores_, own[roles.row], own[roles.column], own[roles.depth]));
    FETTLE_TRY(const BlockRef q, fetched(scores_, parts_.q, around_.back()));
    FETTLE_TRY(const BlockRef k, fetched(scores_, keys, step_));
    FETTLE_TRY_VOID(in_fragments(scores_, written(q), around_.back(), row, deep, kDepth, "_load_a"));
    FETTLE_TRY_VOID(in_fragments(scores_, written(k), depth, deep, column, kColumns, "_load_b_nk"));
    return tensorize(s_, {.target = own[roles.row], .intrinsic = named("")}).map([](BlockRef) {});
  }

  Result<> product_in_tiles() {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block_out_));
    const size_t rank = node->writes[0].buffer->shape.size();
    const auto roles = roles_of(*node, 1 + parts_.query_row, rank - 1);
    FETTLE_TRY(const Loops own, by_iterator(block_out_));
    const Var column = node->iters[roles.column].var, deep = node->iters[roles.depth].var;
    const Buffer values = buffer_with(*node, column);
    FETTLE_TRY(const LoopRef depth, cut_product(block_out_, own[roles.row], own[roles.column], own[roles.depth]));
    FETTLE_TRY(const BlockRef v, fetched(block_out_, values, step_));
    FETTLE_TRY_VOID(in_fragments(block_out_, written(v), depth, deep, column, kColumns, "_load_b"));
    FETTLE_TRY_VOID(unroll(s_, {.loop = columns_}));
    return tensorize(s_, {.target = own[roles.row], .intrinsic = named("")}).map([](BlockRef) {});
  }

  // Copies of later blocks of keys go on while one is worked on.
  Result<> pipelined() {
    FETTLE_TRY(const Stmt stmt, s_.loop(step_));
    const auto* parts = stmt.as<ForNode>()->body.as<SeqNode>();
    if (!parts) return fail(ErrorCode::E230, "the loop over blocks of keys has one part");
    std::vector<int64_t> stages, order;
    int64_t copies = 0, next_copy = 0;
    for (const Stmt& part : parts->stmts) copies += is_copy(part) ? 1 : 0;
    int64_t next = copies;
    for (const Stmt& part : parts->stmts) {
      const bool copy = is_copy(part);
      stages.push_back(copy ? 0 : tile_.stages - 1);
      order.push_back(copy ? next_copy++ : next++);
    }
    return software_pipeline(s_, {.loop = step_, .stages = stages, .order = order});
  }
  static bool is_copy(const Stmt& part) {
    return contains<ForNode>(part, [](const ForNode& loop) { return loop.annotations.find(kAsyncCopyKey) != nullptr; });
  }

  // --- helpers ------------------------------------------------------------------------------------------------------

  std::string named(const std::string& what) const { return "mma_m16n8k16_" + type_.to_string() + what; }

  Buffer written(BlockRef block) const { return (*block_node(s_, block))->writes[0].buffer; }

  struct Roles {
    size_t row = 0, column = 0, depth = 0;  // iterators
  };
  // By the dimensions of what is written.
  static Roles roles_of(const BlockNode& block, size_t row_dimension, size_t column_dimension) {
    const std::vector<Expr>& at = block.init.as<StoreNode>()->indices;
    Roles roles;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      if (block.iters[i].kind == IterKind::kReduce) roles.depth = i;
      if (block.iters[i].var.get() == at[row_dimension].get()) roles.row = i;
      if (block.iters[i].var.get() == at[column_dimension].get()) roles.column = i;
    }
    return roles;
  }
  // The dimension of what the block reads that its iterator moves through.
  Result<size_t> dimension_of(BlockRef block, const Buffer& buffer, const Var& var) const {
    FETTLE_TRY(const BlockNode* node, block_node(s_, block));
    for (const std::vector<Expr>& at : loads_of(node->body, buffer.get()))
      for (size_t d = 0; d < at.size(); ++d)
        if (uses_var(at[d], var.get())) return d;
    return fail(ErrorCode::E230, buffer->name + " is read elsewhere");
  }
  // The factor that the iterator moves through.
  static Buffer buffer_with(const BlockNode& block, const Var& var) {
    Buffer found;
    walk(block.body.as<StoreNode>()->value, [&](const Expr& e) {
      const auto* load = e.as<LoadNode>();
      if (load && load->buffer != block.writes[0].buffer &&
          std::ranges::any_of(load->indices, [&](const Expr& index) { return uses_var(index, var.get()); }))
        found = load->buffer;
      return true;
    });
    return found;
  }

  // The innermost loop of each of the block's iterators; none where it has one value.
  Result<Loops> by_iterator(BlockRef block) const {
    FETTLE_TRY(const Loops loops, get_loops(s_, {.block = block}));
    FETTLE_TRY(const BlockNode* node, block_node(s_, block));
    Loops result(node->iters.size());
    for (const LoopRef& loop : loops) {
      FETTLE_TRY(const Var var, s_.loop_var(loop));
      for (size_t i = 0; i < node->iters.size(); ++i)
        if (uses_var(node->iters[i].binding, var.get())) result[i] = loop;
    }
    return result;
  }
  Result<Loops> below(BlockRef block, LoopRef at) const {
    FETTLE_TRY(const Loops loops, get_loops(s_, {.block = block}));
    FETTLE_TRY(const Var around, s_.loop_var(at));
    Loops own;
    bool inside = false;
    for (const LoopRef& loop : loops) {
      FETTLE_TRY(const Var var, s_.loop_var(loop));
      if (inside) own.push_back(loop);
      inside |= var == around;
    }
    return own;
  }

  // (step, rows…, rest…) in the order heads…, tiles of queries, warps, step, rest…, queries.
  Result<Nest> by_steps(BlockRef block) {
    FETTLE_TRY(const Loops loops, by_iterator(block));
    Nest nest;
    nest.step = loops[0];
    FETTLE_TRY(const Loops tiles, split(s_, {.loop = loops[1 + parts_.query_row],
                                             .factors = {kInfer, tile_.warps, kRows},
                                             .tail = Tail::kGuard}));
    nest.queries = tiles[2];
    for (size_t r = 0; r < parts_.rows; ++r)
      if (r != parts_.query_row) nest.around.push_back(loops[1 + r]);
    nest.around.push_back(tiles[0]);
    nest.around.push_back(tiles[1]);
    nest.rest.assign(loops.begin() + 1 + static_cast<std::ptrdiff_t>(parts_.rows), loops.end());
    FETTLE_TRY_VOID(reorder(s_, {.loops = concatenated({nest.around, {nest.step}, nest.rest, {nest.queries}})}));
    return nest;
  }

  using Blocks = std::vector<BlockRef>;
  Schedule& s_;
  const AttentionParts& parts_;
  const WarpAttentionTile tile_;
  const DType type_;
  BlockRef scores_{}, block_max_{}, lane_max_{}, run_max_{}, powers_{}, block_sum_{}, lane_sum_{}, run_sum_{};
  BlockRef shares_{}, block_out_{}, run_out_{}, inverse_{}, out_{};
  Loops around_;
  LoopRef step_{}, columns_{};
};

}  // namespace

std::optional<DType> tensor_attention_type(const Func& func, const AttentionParts& parts, const Target& target) {
  const DType type = parts.q->dtype;
  if (target.kind != "cuda" || (!(type == kF16) && !(type == kBF16)) || parts.any_open) return {};
  if (!find_block(func->body, parts.scores)) return {};
  if (parts.width % kDepth != 0 || parts.value_width % kDepth != 0) return {};
  return type;
}

Result<Finished> gpu_attention(Schedule& s, const Target& target, const AttentionParts& parts) {
  const auto type = tensor_attention_type(s.func(), parts, target);
  if (!type) return fail(ErrorCode::E230, "tensor cores do not multiply the factors of " + parts.product);
  WarpAttentionTile tile;
  if (parts.queries >= kManyQueries) tile.warps = kMostWarps;
  while (parts.value_width % tile.columns != 0) tile.columns -= kDepth;
  return WarpPass(s, parts, tile, *type).run();
}

}  // namespace fettle
