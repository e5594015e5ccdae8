#include "tune/parts/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "arith/linear.h"
#include "base/ceil_div.h"
#include "ir/query.h"
#include "ir/visit.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "target/caches.h"
#include "tune/parts/preferences.h"
#include "tune/parts/structure.h"
#include "tune/parts/threads.h"
#include "tune/parts/tile_steps.h"

namespace fettle {
namespace {

// Which of the block's iterators the index is; their number where it is none.
size_t iter_of(const BlockNode& block, const Expr& index) {
  const auto found = std::ranges::find_if(block.iters, [&](const IterVar& i) { return index.get() == i.var.get(); });
  return static_cast<size_t>(found - block.iters.begin());
}

// Dimension by dimension, the block reads `from` where it writes.
bool is_elementwise(const BlockStructure& block, const Buffer& from) {
  const auto read = std::ranges::find(block.loads, from, &AccessPattern::buffer);
  if (read == block.loads.end() || read->indices.size() != block.store.indices.size()) return false;
  for (size_t i = 0; i < block.n_iters(); ++i)
    if (block.reduce[i] || block.store.dimension_of(block.vars[i]) < 0 ||
        block.store.dimension_of(block.vars[i]) != read->dimension_of(block.vars[i]))
      return false;
  return true;
}

// What of a load the key's and the element's iterators walk through.
AttentionParts::Shared shared_of(const BlockStructure& block, const AccessPattern& load, size_t key, size_t element) {
  const int key_dim = load.dimension_of(block.vars[key]), element_dim = load.dimension_of(block.vars[element]);
  if (key_dim < 0 || element_dim < 0) return {};
  return {.buffer = load.buffer,
          .key = static_cast<size_t>(key_dim),
          .element = static_cast<size_t>(element_dim),
          .apart = load.strides[element] == 1 && load.strides[key] != AccessPattern::kIrregular &&
                   load.strides[key] > block.extents[element]};
}

// Whether the maximum is of select(key <= query + …, x, -inf), keys as its reduce iterator counts them.
bool hides_later_keys(const BlockNode& maximum, const Var& query) {
  const auto key =
      std::ranges::find_if(maximum.iters, [](const IterVar& iter) { return iter.kind == IterKind::kReduce; });
  const auto row =
      std::ranges::find_if(maximum.iters, [&](const IterVar& iter) { return iter.binding.get() == query.get(); });
  if (key == maximum.iters.end() || row == maximum.iters.end()) return false;
  return contains<SelectNode>(maximum.body, [&](const SelectNode& choice) {
    const auto* other = choice.if_false.as<FloatImmNode>();
    if (!other || !std::isinf(other->value)) return false;
    return std::ranges::any_of(conjuncts(choice.condition), [&](const Expr& conjunct) {
      const auto* compared = conjunct.as<BinaryNode>();
      if (!compared || (compared->op != BinaryOp::kLe && compared->op != BinaryOp::kLt)) return false;
      const LinearForm form = linear_form(compared->a - compared->b);
      return form.coeff_of(key->var) > 0 && form.coeff_of(row->var) < 0;
    });
  });
}

}  // namespace

std::optional<AttentionParts> attention_parts(const Func& func) {
  AttentionParts parts;
  std::optional<BlockStructure> scores, product, maximum;
  const BlockNode* of_maximum = nullptr;
  Buffer x;  // what the maximum is of
  for (const BlockNode* block : blocks_of(func.root())) {
    auto structure = block_structure(func, *block, Extents::kOpen);
    if (!structure) return {};
    if (product) {
      if (!parts.finish.empty() || !is_elementwise(*structure, product->store.buffer) ||
          !is_param(func, structure->store.buffer.get()))
        return {};
      parts.finish = block->name;
      continue;
    }
    const auto combiner = match_combiner(func, *block);
    if (block->init && is_matrix_product(*structure)) {
      (scores ? parts.product : parts.scores) = block->name;
      if (!scores) x = structure->store.buffer;
      (scores ? product : scores) = std::move(structure);
    } else if (!scores) {
      return {};
    } else if (combiner && is_maximum(combiner->op)) {
      if (maximum) return {};
      maximum = std::move(structure);
      of_maximum = block;
    } else if (!maximum) {
      if (!is_elementwise(*structure, x)) return {};
      x = structure->store.buffer;
    }
  }
  if (!product || !maximum || is_param(func, product->store.buffer.get()) != parts.finish.empty() ||
      scores->loads.size() != 2 || product->loads.size() != 2 || !scores->store.buffer->dtype.is_float())
    return {};
  const auto scored = std::ranges::find(maximum->loads, x, &AccessPattern::buffer);
  if (scored == maximum->loads.end()) return {};

  // Of the scores' dimensions one is reduced by the maximum: keys. One other is of one factor only: queries. So are the
  // heads of a group that shares keys, too: queries are the innermost.
  size_t n_reduce = 0;
  std::vector<size_t> dims;   // of x, by the maximum's rows
  std::vector<Var> row_vars;  // the loops of these rows
  Var query_var;
  for (const IterVar& iter : of_maximum->iters) {
    const auto loop = std::ranges::find_if(maximum->vars, [&](const Var& v) { return v.get() == iter.binding.get(); });
    if (loop == maximum->vars.end()) return {};
    const int dim = scored->dimension_of(*loop);
    if (dim < 0) return {};
    if (iter.kind != IterKind::kReduce) {
      dims.push_back(static_cast<size_t>(dim));
      row_vars.push_back(*loop);
      continue;
    }
    parts.key = static_cast<size_t>(dim);
    const auto at = static_cast<size_t>(loop - maximum->vars.begin());
    parts.keys = maximum->extents[at];
    parts.open_keys = maximum->open[at];
    ++n_reduce;
  }
  if (n_reduce != 1 || dims.size() + 1 != scores->store.indices.size()) return {};
  const auto iter_at = [&](size_t dim) {
    for (size_t i = 0; i < scores->n_iters(); ++i)
      if (scores->store.dimension_of(scores->vars[i]) == static_cast<int>(dim)) return i;
    return scores->n_iters();
  };
  const size_t key = iter_at(parts.key);
  if (key == scores->n_iters() || scores->loads[0].touches(key) == scores->loads[1].touches(key)) return {};
  const AccessPattern& of_keys = scores->loads[scores->loads[0].touches(key) ? 0 : 1];
  const AccessPattern& of_queries = scores->loads[scores->loads[0].touches(key) ? 1 : 0];
  for (size_t row = 0; row < dims.size(); ++row) {
    const size_t i = iter_at(dims[row]);
    if (i == scores->n_iters()) return {};
    if (of_keys.touches(i) || !of_queries.touches(i)) continue;
    const int dim = of_queries.dimension_of(scores->vars[i]);
    if (dim < 0) return {};
    parts.query = dims[row];
    parts.query_row = row;
    parts.query_of_q = static_cast<size_t>(dim);
    parts.queries = scores->extents[i];
    parts.open_queries = scores->open[i];
    query_var = row_vars[row];
  }
  if (!query_var || of_queries.buffer == of_keys.buffer) return {};
  size_t query_loop = 0;
  while (maximum->vars[query_loop].get() != query_var.get()) ++query_loop;
  for (const AccessPattern& load : maximum->loads) {
    const int dim = load.dimension_of(query_var);
    if (load.buffer == x || dim < 0 || load.strides[query_loop] == 0 || load.strides[query_loop] == 1) continue;
    parts.masks.push_back({load.buffer, static_cast<size_t>(dim)});
  }
  parts.is_causal = hides_later_keys(*of_maximum, query_var);
  parts.rows = dims.size();
  for (size_t row = 0; row < dims.size(); ++row)
    if (row != parts.query_row) parts.heads *= scores->extents[iter_at(dims[row])];
  parts.q = of_queries.buffer;
  size_t n_steps = 0, n_spatial = 0, weighed_key = 0;
  for (size_t i = 0; i < scores->n_iters(); ++i)
    if (scores->reduce[i]) {
      if (scores->open[i]) return {};
      parts.width = scores->extents[i];
      parts.keys_read = shared_of(*scores, of_keys, key, i);
      ++n_steps;
    }
  for (size_t i = 0; i < product->n_iters(); ++i) n_spatial += product->reduce[i] ? 0 : 1;
  if (n_steps != 1 || n_spatial != dims.size() + 1) return {};
  // What of the product no share moves along is an element of a value.
  const auto shares = std::ranges::find_if(
      product->loads, [&](const AccessPattern& load) { return !is_param(func, load.buffer.get()); });
  if (shares == product->loads.end()) return {};
  for (size_t i = 0; i < product->n_iters(); ++i)
    if (product->reduce[i]) weighed_key = i;
  for (size_t i = 0; i < product->n_iters(); ++i) {
    if (product->reduce[i] || shares->touches(i)) continue;
    if (product->open[i]) return {};
    parts.value_width = product->extents[i];
    parts.values_read = shared_of(*product, product->loads[shares == product->loads.begin() ? 1 : 0], weighed_key, i);
  }
  for (const BlockStructure* structure : {&*scores, &*product})
    parts.any_open = parts.any_open || std::ranges::count(structure->open, true) > 0;
  return parts;
}

std::string AttentionTile::name() const { return fmt::format("{}:{}+{}x{}", keys, key_rows, value_rows, vectors); }

namespace {

// Sizes of blocks: those that divide the keys, and some that tiles of `rows` keys divide. Of these blocks the last one
// is shorter, by as little as can be.
std::vector<int64_t> blocks_of_keys(const AttentionParts& parts, int64_t rows) {
  std::vector<int64_t> blocks;
  for (int64_t keys = std::min(preferences::kMostKeys, parts.keys); keys >= 1; --keys)
    if (!parts.open_keys && parts.keys % keys == 0 && (keys >= preferences::kFewestKeys || keys == parts.keys))
      blocks.push_back(keys);
  for (const int64_t most : preferences::kKeys) {
    const int64_t even = parts.open_keys ? most / rows * rows : ceil_div(parts.keys, ceil_div(parts.keys, most));
    const int64_t keys = ceil_div(even, rows) * rows;
    if (parts.open_keys || (keys < parts.keys && parts.keys % keys != 0)) blocks.push_back(keys);
  }
  return blocks;
}

}  // namespace

std::vector<AttentionTile> attention_tiles(const AttentionParts& parts, const Target& target) {
  const int64_t lanes = lanes_of(target, parts.q->dtype), bytes = parts.q->dtype.element_bytes();
  if (parts.queries < lanes) return {};
  std::vector<AttentionTile> tiles;
  for (int64_t vectors = 1; vectors <= preferences::kMostQueryVectors; ++vectors) {
    if (vectors > 1 && (vectors - 1) * lanes >= parts.queries) break;
    // Sums of as many rows as leave registers for the vectors of a step, what they are multiplied by, and one to spare;
    // and for the maxima and sums of the block.
    const int64_t beside = std::max(vectors + 2, 2 * vectors);
    const int64_t most_rows = std::max<int64_t>((target.vector_registers - beside) / vectors, 1);
    for (const int64_t keys : blocks_of_keys(parts, most_rows)) {
      // Cycles of a step of a tile by what bounds it: two multiply-adds and two loads a cycle, or waiting for sums.
      const auto step = [&](int64_t rows) {
        const auto sums = static_cast<double>(rows * vectors);
        return std::max({sums / 2, static_cast<double>(rows + vectors) / 2, preferences::kSumsWait});
      };
      // Of `n` rows in tiles of `rows`, of which the last one may be lower; each tile's loop begins and ends, and its
      // sums are stored.
      const auto of_rows = [&](int64_t n, int64_t rows, int64_t steps) {
        const int64_t last = n % rows;
        const auto tile = [&](int64_t height) {
          return step(height) * static_cast<double>(steps) + preferences::kTileCycles;
        };
        return (static_cast<double>(n / rows) * tile(rows) + (last > 0 ? tile(last) : 0)) /
               static_cast<double>(vectors);
      };
      const auto best_rows = [&](int64_t n, int64_t steps, bool divides) {
        int64_t best = 0;
        for (int64_t rows = std::min(most_rows, n); rows > 0; --rows)
          if ((!divides || n % rows == 0) && (best == 0 || of_rows(n, rows, steps) < of_rows(n, best, steps)))
            best = rows;
        return best;
      };
      AttentionTile tile{keys, vectors, best_rows(keys, parts.width, true), best_rows(parts.value_width, keys, false)};
      tile.cost = (of_rows(keys, tile.key_rows, parts.width) + of_rows(parts.value_width, tile.value_rows, keys)) /
                  static_cast<double>(keys);
      tile.cost += preferences::kScoreCycles;
      tile.cost += preferences::kScaleCycles * static_cast<double>(parts.value_width + 4) / static_cast<double>(keys);
      const int64_t whole = (parts.queries + vectors * lanes - 1) / (vectors * lanes) * vectors * lanes;
      tile.cost *= static_cast<double>(whole) / static_cast<double>(parts.queries);
      if (!parts.open_keys && parts.keys % keys != 0)
        tile.cost *= 1 + preferences::kShorterBlock / static_cast<double>(ceil_div(parts.keys, keys));
      // Of blocks on the diagonal about half is hidden, and computed all the same.
      if (parts.is_causal)
        tile.cost *= 1 + static_cast<double>(keys + vectors * lanes) / static_cast<double>(parts.keys);
      // Scores, queries and outputs of a tile of queries pass for each block; keys and values come from farther away.
      const int64_t passing = (2 * keys + parts.width + parts.value_width) * vectors * lanes * bytes;
      if (passing > cache_bytes(target, 0)) tile.cost *= preferences::kBeyondFirstLevel;
      tile.cost += static_cast<double>(parts.width + parts.value_width) / static_cast<double>(vectors * lanes) *
                   preferences::kKeyCycles;
      tiles.push_back(tile);
    }
  }
  std::ranges::stable_sort(tiles, {}, &AttentionTile::cost);
  if (tiles.size() > preferences::kMostTiles) tiles.resize(preferences::kMostTiles);
  return tiles;
}

namespace {

// Which iterators of a copy are contiguous in what it writes and in what it reads of `from`.
struct Turn {
  size_t lane = 0, column = 0;
};
Result<Turn> turn_of(const Schedule& s, BlockRef copy, const Buffer& from) {
  FETTLE_TRY(const BlockNode* node, block_node(s, copy));
  const auto structure = block_structure(s.func(), *node, Extents::kOpen);
  if (!structure) return fail(ErrorCode::E230, node->name + " is in no plain nest");
  const auto read = std::ranges::find(structure->loads, from, &AccessPattern::buffer);
  if (read == structure->loads.end()) return fail(ErrorCode::E230, node->name + " reads no " + from->name);
  std::optional<size_t> lane, column;
  for (size_t i = 0; i < structure->n_iters(); ++i) {
    const auto iter = std::ranges::find_if(
        node->iters, [&](const IterVar& v) { return v.binding.get() == structure->vars[i].get(); });
    if (iter == node->iters.end() || structure->is(i, 1)) continue;
    const auto number = static_cast<size_t>(iter - node->iters.begin());
    if (structure->store.strides[i] == 1) lane = number;
    if (read->strides[i] == 1) column = number;
  }
  if (!lane) return fail(ErrorCode::E230, node->name + " writes nothing contiguous");
  return Turn{*lane, column.value_or(*lane)};
}

struct OnePass {
  Schedule& s;
  const AttentionParts& parts;
  AttentionTile tile;
  int64_t lanes = 1;
  Tail tail = Tail::kExact;    // of tiles of queries
  bool powers_of_two = false;  // take fewer instructions than those of e
  bool copies_keys = false;    // and values, of a head, so that they lie side by side

  Result<Loops> build();

 private:
  struct Nest {
    Loops around;  // rows but queries, then tiles of these
    LoopRef step;
    Loops rest;
    LoopRef queries;
  };
  int64_t queries() const { return tile.vectors * lanes; }
  IndexMap queries_last(size_t rank, size_t query) const;
  IndexMap side_by_side(const AttentionParts::Shared& shared) const;
  Result<Loops> by_iterator(BlockRef block) const;
  Result<Nest> by_steps(BlockRef block) const;
  Result<> in_lanes(LoopRef loop) const;
  Result<> registers(BlockRef block) const { return set_scope(s, {.block = block, .scope = kScopeRegister}); }
  Result<> sum_in_tile(BlockRef block, LoopRef reduction, LoopRef rows, LoopRef vector) const;
  static LoopRef heads(const Loops& around) { return around[around.size() - 2]; }
  Result<Loops> cut(LoopRef loop, int64_t size) const;
  Result<> turn_over(BlockRef block, const Turn& turn) const;
};

IndexMap OnePass::queries_last(size_t rank, size_t query) const {
  IndexMap map;
  for (size_t d = 0; d < rank; ++d) map.inputs.push_back(make_var(fmt::format("d{}", d)));
  for (size_t d = 0; d < rank; ++d)
    if (d != query) map.outputs.push_back(map.inputs[d]);
  map.outputs.push_back(map.inputs[query]);
  return map;
}

IndexMap OnePass::side_by_side(const AttentionParts::Shared& shared) const {
  IndexMap map;
  const size_t rank = shared.buffer->shape.size();
  for (size_t d = 0; d < rank; ++d) map.inputs.push_back(make_var(fmt::format("d{}", d)));
  for (size_t d = 0; d < rank; ++d)
    if (d != shared.key && d != shared.element) map.outputs.push_back(map.inputs[d]);
  map.outputs.push_back(map.inputs[shared.key]);
  map.outputs.push_back(map.inputs[shared.element]);
  return map;
}

// The innermost loop of each of the block's iterators; none where it has one value.
Result<Loops> OnePass::by_iterator(BlockRef block) const {
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  Loops result(node->iters.size());
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    for (size_t i = 0; i < node->iters.size(); ++i)
      if (uses_var(node->iters[i].binding, stmt.as<ForNode>()->var.get())) result[i] = loop;
  }
  return result;
}

Result<Loops> OnePass::cut(LoopRef loop, int64_t size) const {
  FETTLE_TRY(const int64_t extent, loop_extent(s, loop));
  return split(s,
               {.loop = loop, .factors = {kInfer, size}, .tail = extent % size == 0 ? Tail::kExact : Tail::kPartition});
}

// Unrolled vectors.
Result<> OnePass::in_lanes(LoopRef loop) const {
  FETTLE_TRY(const int64_t extent, loop_extent(s, loop));
  if (extent > lanes) {
    FETTLE_TRY(
        const Loops parts,
        split(s, {.loop = loop, .factors = {kInfer, lanes}, .tail = extent % lanes == 0 ? Tail::kExact : Tail::kMask}));
    FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
    loop = parts[1];
  }
  return vectorize(s, {.loop = loop});
}

// (step, rows…, rest…) in the order rows…, tiles of queries, step, rest…, queries: what all nests are joined at.
Result<OnePass::Nest> OnePass::by_steps(BlockRef block) const {
  FETTLE_TRY(const Loops loops, by_iterator(block));
  Nest nest;
  nest.step = loops[0];
  FETTLE_TRY(const Loops tiles,
             split(s, {.loop = loops[1 + parts.query_row], .factors = {kInfer, queries()}, .tail = tail}));
  nest.queries = tiles[1];
  for (size_t r = 0; r < parts.rows; ++r)
    if (r != parts.query_row) nest.around.push_back(loops[1 + r]);
  nest.around.push_back(tiles[0]);
  nest.rest.assign(loops.begin() + 1 + static_cast<std::ptrdiff_t>(parts.rows), loops.end());
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({nest.around, {nest.step}, nest.rest, {nest.queries}})}));
  return nest;
}

// A tile of sums in registers: rows unrolled, queries in lanes.
Result<> OnePass::sum_in_tile(BlockRef block, LoopRef reduction, LoopRef rows, LoopRef vector) const {
  Loops order = {reduction};
  if (s.loop(rows)) order.push_back(rows);
  order.push_back(vector);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  if (s.loop(rows)) FETTLE_TRY_VOID(unroll(s, {.loop = rows}));
  FETTLE_TRY_VOID(in_lanes(vector));
  return begin_sums(s, block, reduction);
}

// In tiles that are transposed in registers, where lanes would gather.
Result<> OnePass::turn_over(BlockRef block, const Turn& turn) const {
  FETTLE_TRY(const Loops loops, by_iterator(block));
  if (turn.lane == turn.column || !s.loop(loops[turn.column])) return in_lanes(loops[turn.lane]);
  Loops columns = {loops[turn.column]}, vector = {loops[turn.lane]};
  FETTLE_TRY(const int64_t width, loop_extent(s, columns[0]));
  FETTLE_TRY(const int64_t length, loop_extent(s, vector[0]));
  if (width > lanes) {
    FETTLE_TRY(columns, cut(columns[0], lanes));
  }
  if (length > lanes) {
    const Tail last = length % lanes == 0 ? Tail::kExact : Tail::kMask;
    FETTLE_TRY(vector, split(s, {.loop = vector[0], .factors = {kInfer, lanes}, .tail = last}));
  }
  Loops order;
  if (columns.size() > 1) order.push_back(columns[0]);
  if (vector.size() > 1) order.push_back(vector[0]);
  FETTLE_TRY_VOID(reorder(s, {.loops = concatenated({order, {columns.back(), vector.back()}})}));
  FETTLE_TRY_VOID(unroll(s, {.loop = columns.back()}));
  return vectorize(s, {.loop = vector.back()});
}

Result<Loops> OnePass::build() {
  FETTLE_TRY(const BlockRef written, get_block(s, {.name = parts.product}));
  FETTLE_TRY(const BlockRef scores, get_block(s, {.name = parts.scores}));
  std::vector<IntRef> numbers = {tile.keys};
  if (powers_of_two) numbers.push_back(2);
  FETTLE_TRY(const auto states, reformulate(s, {.block = written, .kind = "online_reduction", .numbers = numbers}));
  const BlockRef block_max = states[0], run_max = states[1], powers = states[2], block_sum = states[3];
  const BlockRef run_sum = states[4], block_out = states[5], run_out = states[6];
  FETTLE_TRY(const auto last, reformulate(s, {.block = states[7], .kind = "shared_reciprocal"}));
  const BlockRef inverse = last[0], out = last[1];

  // What masks say of a tile of queries and a block of keys, turned over once for both readers.
  std::vector<std::pair<BlockRef, Turn>> masks;
  for (const AttentionParts::Mask& mask : parts.masks) {
    FETTLE_TRY(const int64_t read, read_index_of(s, block_max, mask.buffer));
    FETTLE_TRY(const BlockRef copy,
               cache_read(s, {.block = block_max, .read_index = read, .consumer_blocks = {powers}}));
    const IndexMap map = queries_last(mask.buffer->shape.size(), mask.query);
    FETTLE_TRY_VOID(transform_layout(s, {.block = copy, .index_map = map}));
    FETTLE_TRY(const Turn turn, turn_of(s, copy, mask.buffer));
    masks.emplace_back(copy, turn);
  }

  // Queries innermost in everything that is between.
  FETTLE_TRY(const BlockRef packed,
             pack_panels(s, scores, parts.q, queries_last(parts.q->shape.size(), parts.query_of_q)));
  FETTLE_TRY(const Turn turn_queries, turn_of(s, packed, parts.q));
  const size_t rank = parts.rows + 1;
  const IndexMap of_scores = queries_last(rank, parts.query);
  FETTLE_TRY_VOID(transform_layout(s, {.block = scores, .index_map = of_scores}));
  FETTLE_TRY(const BlockNode* scored, block_node(s, scores));
  const Buffer plain = single_store(*scored) ? single_store(*scored)->buffer : scored->writes[0].buffer;
  FETTLE_TRY(const BlockRef back, accumulate_in_registers(s, scores));
  FETTLE_TRY(const BlockNode* copied, block_node(s, back));
  if (copied->writes[0].buffer->name != plain->name)
    FETTLE_TRY_VOID(transform_layout(s, {.block = back, .index_map = of_scores}));
  FETTLE_TRY_VOID(transform_layout(s, {.block = run_out, .index_map = queries_last(rank, parts.query_row)}));
  FETTLE_TRY(const BlockNode* state, block_node(s, run_out));
  FETTLE_TRY(const Turn turn_out, turn_of(s, out, state->writes[0].buffer));
  const IndexMap of_steps = queries_last(rank + 1, 1 + parts.query_row);
  FETTLE_TRY_VOID(transform_layout(s, {.block = block_out, .index_map = of_steps}));

  // What a block of keys adds to the output: a tile in registers, added to what there is so far.
  FETTLE_TRY(const Nest of_out, by_steps(run_out));
  FETTLE_TRY(const Loops elements, cut(of_out.rest[0], tile.value_rows));
  FETTLE_TRY_VOID(compute_at(s, {.block = block_out, .loop = elements[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll(s, {.loop = elements[1]}));
  FETTLE_TRY_VOID(in_lanes(of_out.queries));
  FETTLE_TRY(const Loops p, by_iterator(block_out));  // step rows… element key
  FETTLE_TRY_VOID(
      sum_in_tile(block_out, p.back(), tile.value_rows > 1 ? p[p.size() - 2] : LoopRef(), p[1 + parts.query_row]));
  FETTLE_TRY_VOID(registers(block_out));

  // Running maximum, exponentials and their sum, key by key: all under the same block of keys.
  FETTLE_TRY(const Nest of_max, by_steps(run_max));
  FETTLE_TRY_VOID(in_lanes(of_max.queries));
  FETTLE_TRY(const Nest of_powers, by_steps(powers));
  FETTLE_TRY_VOID(transform_layout(s, {.block = powers, .index_map = of_steps}));  // its loops stay
  FETTLE_TRY_VOID(in_lanes(of_powers.queries));
  FETTLE_TRY(const Nest of_part, by_steps(block_sum));
  FETTLE_TRY_VOID(in_lanes(of_part.queries));
  FETTLE_TRY_VOID(registers(block_sum));
  FETTLE_TRY(const Nest of_sum, by_steps(run_sum));
  FETTLE_TRY_VOID(in_lanes(of_sum.queries));
  FETTLE_TRY(const LoopRef each_key, merge(s, {.loops = {of_powers.rest[0], of_part.rest[0]}}));
  FETTLE_TRY(const LoopRef step, merge(s, {.loops = {of_max.step, of_powers.step, of_sum.step, of_out.step}}));
  FETTLE_TRY_VOID(begin_sums(s, block_sum, each_key));

  FETTLE_TRY_VOID(compute_at(s, {.block = block_max, .loop = step, .preserve_unit_loops = false}));
  FETTLE_TRY(const Loops h, by_iterator(block_max));  // rows… step key
  FETTLE_TRY(const Loops scored_keys, split(s, {.loop = h.back(), .factors = {kInfer, tile.key_rows}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {scored_keys[0], scored_keys[1], h[parts.query_row]}}));
  FETTLE_TRY_VOID(unroll(s, {.loop = scored_keys[1]}));
  FETTLE_TRY_VOID(in_lanes(h[parts.query_row]));
  FETTLE_TRY_VOID(registers(block_max));

  for (const auto& [copy, turn] : masks) {
    FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = step, .preserve_unit_loops = false}));
    FETTLE_TRY_VOID(turn_over(copy, turn));
  }

  // The scores of a block: a tile of keys x queries in registers.
  FETTLE_TRY_VOID(compute_at(s, {.block = back, .loop = step, .preserve_unit_loops = false}));
  FETTLE_TRY(copied, block_node(s, back));
  const size_t key = parts.key - (parts.query < parts.key ? 1 : 0);
  const std::vector<Expr>& at = single_store(*copied)->indices;
  FETTLE_TRY(const Loops c, by_iterator(back));
  const LoopRef queries = c[iter_of(*copied, at.back())];
  FETTLE_TRY(const Loops keys, split(s, {.loop = c[iter_of(*copied, at[key])], .factors = {kInfer, tile.key_rows}}));
  FETTLE_TRY_VOID(reorder(s, {.loops = {keys[0], keys[1], queries}}));
  FETTLE_TRY_VOID(compute_at(s, {.block = scores, .loop = keys[0], .preserve_unit_loops = false}));
  FETTLE_TRY_VOID(unroll(s, {.loop = keys[1]}));
  FETTLE_TRY_VOID(in_lanes(queries));
  FETTLE_TRY(const BlockNode* sums, block_node(s, scores));
  FETTLE_TRY(const Loops g, by_iterator(scores));
  const std::vector<Expr>& sum_at = sums->init.as<StoreNode>()->indices;
  LoopRef reduction;
  for (size_t i = 0; i < sums->iters.size(); ++i)
    if (sums->iters[i].kind == IterKind::kReduce) reduction = g[i];
  FETTLE_TRY_VOID(sum_in_tile(scores, reduction, tile.key_rows > 1 ? g[iter_of(*sums, sum_at[key])] : LoopRef(),
                              g[iter_of(*sums, sum_at.back())]));
  // Their maximum is taken of what is in registers still.
  FETTLE_TRY(const LoopRef score_tile, merge(s, {.loops = {keys[0], scored_keys[0]}}));
  FETTLE_TRY_VOID(begin_sums(s, block_max, score_tile));

  // Once for each tile of queries: Q turned over before, the output turned back and divided after.
  const LoopRef around = of_max.around.back();
  FETTLE_TRY_VOID(compute_at(s, {.block = packed, .loop = around, .preserve_unit_loops = false}));
  for (const BlockRef block : {inverse, out})
    FETTLE_TRY_VOID(reverse_compute_at(s, {.block = block, .loop = around, .preserve_unit_loops = false}));
  // Now, when no nest that is made of both stands apart.
  for (const auto& [reader, shared] : {std::pair(scores, &parts.keys_read), std::pair(block_out, &parts.values_read)}) {
    if (!copies_keys) break;
    FETTLE_TRY(const BlockRef copy, pack_panels(s, reader, shared->buffer, side_by_side(*shared)));
    FETTLE_TRY_VOID(compute_at(s, {.block = copy, .loop = heads(of_max.around), .preserve_unit_loops = false}));
    FETTLE_TRY(const Loops loops, get_loops(s, {.block = copy}));
    FETTLE_TRY_VOID(in_lanes(loops.back()));
  }
  FETTLE_TRY_VOID(turn_over(packed, turn_queries));
  FETTLE_TRY_VOID(turn_over(out, turn_out));
  FETTLE_TRY(const Loops dividing, get_loops(s, {.block = inverse}));
  FETTLE_TRY_VOID(in_lanes(dividing.back()));
  if (parts.is_causal && (parts.open_keys || tile.keys < parts.keys)) FETTLE_TRY_VOID(skip_hidden(s, {.loop = step}));
  Loops of_threads = of_max.around;
  if (copies_keys) of_threads.pop_back();
  return of_threads;
}

// Whether a copy of a head's keys and values, side by side, may pay: tiles of queries read it often enough, it stays in
// the second-level cache, and threads can take whole heads.
bool may_copy_keys(const AttentionParts& parts, const AttentionTile& tile, const Target& target, int threads) {
  const auto& [k, v] = std::pair(parts.keys_read, parts.values_read);
  if (!k.apart || !v.apart || parts.any_open || parts.rows < 2) return false;
  const int64_t tile_queries = tile.vectors * lanes_of(target, parts.q->dtype);
  if (parts.queries < preferences::kTilesThatReadCopy * tile_queries) return false;
  const int64_t bytes = parts.keys * (parts.width + parts.value_width) * parts.q->dtype.element_bytes();
  return bytes <= cache_bytes(target, 1) && (parts.heads % threads == 0 || parts.heads >= int64_t{4} * threads);
}

}  // namespace

Result<Finished> attention_in_one_pass(Schedule& s, const Target& target, Decider& decider, const AttentionParts& parts,
                                       int threads) {
  const std::vector<AttentionTile> tiles = attention_tiles(parts, target);
  if (tiles.empty()) return fail(ErrorCode::E230, "no tile fits " + parts.product);
  std::vector<std::string> names;
  std::vector<double> weights;
  for (const AttentionTile& tile : tiles) {
    names.push_back(tile.name());
    weights.push_back(tiles.front().cost / tile.cost);
  }
  FETTLE_TRY(const size_t place, decider.pick_place(s, {"tile", std::move(names), 0, std::move(weights)}));
  OnePass pass{.s = s, .parts = parts, .tile = tiles[place], .lanes = lanes_of(target, parts.q->dtype)};
  pass.powers_of_two = parts.q->dtype == kF32;
  if (parts.open_queries || parts.queries % (pass.tile.vectors * pass.lanes) != 0) pass.tail = Tail::kPartition;
  FETTLE_TRY(const BlockRef last, get_block(s, {.name = parts.product}));
  FETTLE_TRY(const BlockNode* product, block_node(s, last));
  const auto structure = block_structure(s.func(), *product, Extents::kOpen);
  if (!structure) return fail(ErrorCode::E230, parts.product + " is in no plain nest");
  const double ns = 2 * alone_ns(target, *structure);
  if (may_copy_keys(parts, pass.tile, target, threads)) {
    FETTLE_TRY(const int64_t copied, decider.pick(s, {"copy_keys", {0, 1}, 1}));
    pass.copies_keys = copied != 0;
  }
  auto built = pass.build();
  FETTLE_TRY(const Loops around, std::move(built));
  FETTLE_TRY(const bool shared, worth_threads(s, decider, threads, ns));
  if (shared) FETTLE_TRY_VOID(parallelize(s, around, {.threads = threads, .alone_ns = parts.any_open ? ns : 0}));
  Finished all;
  for (const BlockNode* block : blocks_of(s.func().root())) all.push_back(block->name);
  return all;
}

}  // namespace fettle
