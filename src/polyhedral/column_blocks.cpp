#include "polyhedral/column_blocks.h"

#include <algorithm>
#include <ranges>

#include <fmt/format.h>

#include "analysis/affine/nest.h"
#include "analysis/sites.h"
#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/annotations.h"
#include "ir/query.h"
#include "polyhedral/lanes.h"
#include "polyhedral/placement.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/scanning.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Of a tile's width: so many accumulators hide much of a multiply-add's latency, and rows fill whole lines of a cache.
constexpr int64_t kVectorsOfColumns = 6;
// Of a block, or the next number that tiles divide: columns of the block itself are few beside those beyond.
constexpr int64_t kBlockedSteps = 48;
constexpr int64_t kMostTiles = 1 << 20;  // more than any program has

// What a block writes along memory: columns, of which a loop goes over those from its step on.
struct Columns {
  size_t loop = 0;
  int64_t shift = 0;           // column - the loop's variable
  std::optional<int64_t> end;  // behind the last one
};

std::optional<Columns> columns_of(const NestStatement& statement) {
  std::vector<const StoreNode*> stores;
  each_node<StoreNode>(statement.block->body, [&](const StoreNode& store) { stores.push_back(&store); });
  if (stores.size() != 1 || stores.front()->indices.empty()) return std::nullopt;
  const VarMap bindings = binding_map(*statement.block);
  const LinearForm index = linear_form(substitute(stores.front()->indices.back(), bindings));
  for (size_t at = 1; at < statement.loops.size(); ++at) {
    const ForNode& loop = *statement.loops[at];
    if (index.terms.size() != 1 || index.coeff_of(loop.var) != 1) continue;
    const LinearForm first = linear_form(simplify(loop.min + Expr(index.constant) - statement.loops.front()->var));
    if (!first.is_constant() || first.constant < 0) return std::nullopt;
    Columns columns{at, index.constant, std::nullopt};
    if (const int64_t* extent = as_int(simplify(loop.min + loop.extent))) columns.end = *extent + index.constant;
    return columns;
  }
  return std::nullopt;
}

constexpr int64_t kPhaseOutput = 1, kTileOutput = 2;

// (k // depth, phase, tile of columns, k, positions and loops within k, column). Phases are the block's own columns,
// whole tiles beyond them, and what is left at the end.
IndexMap map_of(const NestStatement& statement, const std::optional<Columns>& columns, int64_t depth, int64_t width,
                size_t inside) {
  IndexMap map;
  for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
  const Expr step = map.inputs.front(), block = floordiv(step, Expr(depth));
  Expr phase = 0, tile = 0, column = 0;
  if (columns) {
    column = Expr(map.inputs[columns->loop]) + Expr(columns->shift);
    const Expr ahead = floordiv(column, Expr(depth)) - block;
    phase = min(Expr(1), ahead);
    if (columns->end && *columns->end % width != 0) {
      const int64_t whole = *columns->end / width * width;
      phase = phase + min(phase, max(Expr(0), column - Expr(whole - 1)));
    }
    tile = min(floordiv(column, Expr(width)), ahead * Expr(kMostTiles));
  }
  map.outputs = {block, phase, tile, step};
  for (auto at = std::ranges::find(statement.when, "l0") + 1; at != statement.when.end(); ++at)
    if (!columns || *at != fmt::format("l{}", columns->loop)) map.outputs.push_back(value_at(*at, map.inputs));
  map.outputs.resize(inside, Expr(0));
  map.outputs.push_back(column);
  return map;
}

// The one loop that tells where in the buffer a read is, of dimensions but the last; of what no column moves.
std::optional<size_t> dimension_across(const Func& func, const BlockNode& block, const Region& read) {
  const std::vector<const ForNode*> loops = loops_around(func, &block);
  const size_t n = loops.size();
  if (n < 2 || read.ranges.empty()) return std::nullopt;
  const VarMap bindings = binding_map(block);
  std::optional<size_t> across;
  for (size_t d = 0; d < read.ranges.size(); ++d) {
    const Expr at = substitute(read.ranges[d].min, bindings);
    if (uses_var(at, loops[n - 1]->var.get()) || !is_one(read.ranges[d].extent)) return std::nullopt;
    if (!uses_var(at, loops[n - 2]->var.get())) continue;
    if (across) return std::nullopt;
    across = d;
  }
  return across && *across + 1 < read.ranges.size() ? across : std::nullopt;
}

// (…, i, …, k) → (…, k, i): what one step reads lies side by side.
IndexMap with_last(size_t dimensions, size_t last) {
  IndexMap map;
  for (size_t d = 0; d < dimensions; ++d) map.inputs.push_back(make_var(fmt::format("d{}", d)));
  for (size_t d = 0; d < dimensions; ++d)
    if (d != last) map.outputs.emplace_back(map.inputs[d]);
  map.outputs.emplace_back(map.inputs[last]);
  return map;
}

// What all tiles beyond a block read of its own columns is copied once, so that a step's elements are neighbours.
Result<> copy_shared_reads(Schedule& s, const std::vector<std::string>& tiles) {
  struct Shared {
    Buffer buffer;
    size_t across = 0;
    int64_t read = 0;  // of the first block
    std::vector<std::string> readers;
  };
  std::vector<Shared> found;
  for (const BlockNode* block : blocks_of(s.func().root())) {
    if (std::ranges::find(tiles, block->name) == tiles.end()) continue;
    for (size_t k = 0; k < block->reads.size(); ++k) {
      const Region& read = block->reads[k];
      const auto across = dimension_across(s.func(), *block, read);
      if (!across) continue;
      const auto same = std::ranges::find_if(
          found, [&](const Shared& one) { return one.buffer == read.buffer && one.across == *across; });
      if (same == found.end())
        found.push_back({read.buffer, *across, static_cast<int64_t>(k), {block->name}});
      else
        same->readers.push_back(block->name);
    }
  }
  for (const Shared& shared : found) {
    Schedule tried = s;
    CacheReadArgs args{.read_index = shared.read};
    FETTLE_TRY(args.block, get_block(tried, {shared.readers.front()}));
    for (const std::string& reader : shared.readers | std::views::drop(1)) {
      FETTLE_TRY(const BlockRef ref, get_block(tried, {reader}));
      args.consumer_blocks.push_back(ref);
    }
    const auto copy = cache_read(tried, args);
    if (!copy) continue;  // a tile writes it, too
    if (transform_layout(tried, {*copy, 0, "write", with_last(shared.buffer->shape.size(), shared.across)})) s = tried;
  }
  return {};
}

bool is_whole_tile(const Func& func, const std::string& block, int64_t width) {
  const auto loops = loops_around(func, find_block(func->body, block));
  const int64_t* extent = loops.empty() ? nullptr : as_int(loops.back()->extent);
  return extent && *extent == width && writes_along(*find_block(func->body, block), *loops.back());
}

// A whole tile's columns are written out as vectors.
Result<> write_columns_out(Schedule& s, const std::string& block, int64_t lanes) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  Schedule tried = s;
  const auto parts = split(tried, {loops.back(), {kInfer, lanes}});
  if (parts && vectorize(tried, {(*parts)[1]}) && unroll(tried, {(*parts)[0]})) s = tried;
  return {};
}

// Threads share the loop over tiles, which is the one within blocks of steps, where there are several.
Result<> share_tiles(Schedule& s, const std::string& tile) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {tile}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  for (const LoopRef& loop : loops) {
    FETTLE_TRY(const Stmt at, s.loop(loop));
    if (scanned_dimension(*at.as<ForNode>()) != kTileOutput) continue;
    Schedule tried = s;
    if (parallel(tried, {loop})) s = tried;
  }
  return {};
}

}  // namespace

Result<> block_columns(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool in_parallel) {
  FETTLE_TRY(const auto place, place_of(s.func(), blocks));
  FETTLE_TRY(const AffineNest nest, AffineNest::of(s.func(), place.first, place.second));
  const auto& statements = nest.statements();
  const auto refuse = [](const char* why) { return fail(ErrorCode::E211, why); };
  std::vector<std::optional<Columns>> columns;
  size_t inside = 0;
  for (const NestStatement& statement : statements) {
    if (statement.loops.empty() || statement.loops.front() != statements.front().loops.front())
      return refuse("the blocks share no loop");
    columns.push_back(columns_of(statement));
    inside = std::max(inside, statement.when.size() + 4);
  }
  if (std::ranges::none_of(columns, [](const auto& some) { return some.has_value(); }))
    return refuse("no block has columns from its step on");
  const int64_t width = kVectorsOfColumns * lanes, depth = (kBlockedSteps + width - 1) / width * width;
  Schedule made = s;
  RescheduleArgs args;
  for (size_t k = 0; k < statements.size(); ++k) {
    FETTLE_TRY(args.blocks.emplace_back(), get_block(made, {statements[k].block->name}));
    args.maps.push_back(map_of(statements[k], columns[k], depth, width, inside));
  }
  args.apart = {kPhaseOutput};
  std::vector<std::string> parts;
  FETTLE_TRY_VOID(reschedule_with_copies(made, args, blocks, parts));
  // Lowering keeps sums of a tile in registers.
  FETTLE_TRY_VOID(annotate(made, {args.blocks.front(), kInOrderKey, int64_t{1}}));
  std::vector<std::string> tiles;
  for (const std::string& part : parts)
    if (is_whole_tile(made.func(), part, width)) tiles.push_back(part);
  FETTLE_TRY_VOID(copy_shared_reads(made, tiles));
  for (const std::string& part : parts) {
    const bool is_tile = std::ranges::find(tiles, part) != tiles.end();
    FETTLE_TRY_VOID(is_tile ? write_columns_out(made, part, lanes) : make_lanes_along_memory(made, part, lanes));
  }
  if (in_parallel && !tiles.empty()) FETTLE_TRY_VOID(share_tiles(made, tiles.front()));
  s = made;
  return {};
}

}  // namespace fettle
