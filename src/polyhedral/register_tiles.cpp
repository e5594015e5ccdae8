#include "polyhedral/register_tiles.h"

#include <algorithm>
#include <ranges>

#include "analysis/sites.h"
#include "ir/compare.h"
#include "ir/visit.h"
#include "schedule/edit/scanning.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Steps whose operands the caches hold: a panel of columns the first level, all rows the second.
constexpr int64_t kSteps = 128, kStepsAlongMemory = 256;

constexpr size_t kMembers = 3;  // rows of the order
constexpr int kStepsRow = 3;    // of the sum's steps, in RegisterTiles::map

// Whether the sum's loop, which the row is, has so few iterations that they need no blocks.
bool are_few_steps(const NestStatement& statement, const IndexMap& map, size_t row, int64_t most) {
  for (size_t i = 0; i < map.inputs.size(); ++i)
    if (linear_form(map.outputs[row]).coeff_of(map.inputs[i]) != 0) {
      const int64_t* extent = as_int(statement.loops[i]->extent);
      if (!extent || *extent > most) return false;
    }
  return true;
}

// The loop that a row of the order is, if it is one alone.
const ForNode* loop_of_row(const NestStatement& statement, const IndexMap& map, size_t row) {
  const ForNode* loop = nullptr;
  for (size_t i = 0; i < map.inputs.size(); ++i) {
    const int64_t times = linear_form(map.outputs[row]).coeff_of(map.inputs[i]);
    if (times == 0) continue;
    if (loop || times != 1) return nullptr;
    loop = statement.loops[i];
  }
  return loop;
}

// Whether a factor stays through all steps, in a register of its own.
bool has_constant_factor(const NestStatement& statement, const IndexMap& map, size_t summed) {
  const BlockNode& block = *statement.block;
  const ForNode* steps = loop_of_row(statement, map, summed);
  const VarMap bindings = binding_map(block);
  return steps && std::ranges::any_of(block.reads, [&](const Region& read) {
           return read.buffer != block.body.as<StoreNode>()->buffer &&
                  std::ranges::none_of(read.ranges, [&](const Range& range) {
                    return uses_var(substitute(range.min, bindings), steps->var.get());
                  });
         });
}

// What makes lanes of columns of a sum whose steps go along memory: the row that columns are, and which reads are to be
// packed for it.
struct PackedColumns {
  size_t column = 0;
  std::vector<PackedRead> reads;
};

std::optional<PackedColumns> pack_columns(const NestStatement& statement, const IndexMap& map, size_t summed,
                                          int64_t columns) {
  const BlockNode& block = *statement.block;
  const VarMap bindings = binding_map(block);
  const auto times = [&](const Expr& index, const ForNode* loop) -> std::optional<int64_t> {
    const auto split = split_linear(substitute(index, bindings), loop->var.get());
    const int64_t* coeff = split ? as_int(split->coeff) : nullptr;
    return coeff ? std::optional(*coeff) : std::nullopt;
  };
  const ForNode* steps = loop_of_row(statement, map, summed);
  const auto* store = block.body.as<StoreNode>();
  for (size_t column = 0; column < kMembers; ++column) {
    const ForNode* along = column != summed ? loop_of_row(statement, map, column) : nullptr;
    if (!steps || !along || times(store->indices.back(), along) != 1) continue;
    // Iterators that are these loops.
    std::optional<size_t> of_column, of_steps;
    for (size_t i = 0; i < block.iters.size(); ++i) {
      if (block.iters[i].binding.get() == along->var.get()) of_column = i;
      if (block.iters[i].binding.get() == steps->var.get()) of_steps = i;
    }
    if (!of_column || !of_steps) continue;
    PackedColumns packed{column, {}};
    bool fits = true;
    for (size_t k = 0; k < block.reads.size() && fits; ++k) {
      const Region& read = block.reads[k];
      if (read.buffer == store->buffer) continue;
      bool moves = false, others = false;
      for (const Range& range : read.ranges) {
        moves = moves || times(range.min, along) != 0;
        others = others || !is_one(range.extent);
        for (size_t i = 0; i < block.iters.size(); ++i)
          others = others || (i != *of_column && i != *of_steps && uses_var(range.min, block.iters[i].var.get()));
      }
      if (!moves || (!others && times(read.ranges.back().min, along) == 1)) continue;
      fits = !others;
      PackedRead& made = packed.reads.emplace_back(PackedRead{static_cast<int64_t>(k), {}});
      for (const IterVar& iter : block.iters) made.map.inputs.push_back(make_var(iter.var->name));
      const Expr at = made.map.inputs[*of_column];
      made.map.outputs = {floordiv(at, Expr(columns)), made.map.inputs[*of_steps], floormod(at, Expr(columns))};
    }
    if (fits && !packed.reads.empty()) return packed;
  }
  return std::nullopt;
}

// The last loops around the block: those of the sum's steps and what is in it. Empty: steps have no loop.
Result<std::vector<LoopRef>> loops_from_steps(Schedule& s, const BlockRef& block) {
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {block}));
  for (size_t at = 0; at < loops.size(); ++at) {
    FETTLE_TRY(const Stmt loop, s.loop(loops[at]));
    if (scanned_dimension(*loop.as<ForNode>()) == kStepsRow)
      return std::vector(loops.begin() + static_cast<std::ptrdiff_t>(at), loops.end());
  }
  return std::vector<LoopRef>();
}

}  // namespace

bool goes_on(const BlockNode& block) {
  const auto* store = block.body.as<StoreNode>();
  return store && contains<LoadNode>(store->value, [&](const LoadNode& read) {
           return read.buffer == store->buffer &&
                  std::ranges::equal(read.indices, store->indices,
                                     [](const Expr& a, const Expr& b) { return structural_equal(a, b); });
         });
}

std::optional<size_t> summed_row(const NestStatement& statement, const IndexMap& map) {
  if (statement.loops.size() != kMembers || map.outputs.size() < kMembers || !goes_on(*statement.block))
    return std::nullopt;
  const VarMap bindings = binding_map(*statement.block);
  const auto& place = statement.block->body.as<StoreNode>()->indices;
  for (size_t i = 0; i < statement.loops.size(); ++i) {
    const VarNode* loop = statement.loops[i]->var.get();
    const bool is_place =
        std::ranges::any_of(place, [&](const Expr& index) { return uses_var(substitute(index, bindings), loop); });
    if (is_place) continue;
    std::optional<size_t> row;
    size_t moved = 0;
    for (size_t d = 0; d < kMembers; ++d)
      if (linear_form(map.outputs[d]).coeff_of(map.inputs[i]) != 0) row = d, ++moved;
    if (moved == 1) return row;
  }
  return std::nullopt;
}

std::optional<RegisterTiles> plan_register_tiles(const NestStatement& statement, const IndexMap& map, int64_t lanes,
                                                 int64_t registers) {
  const auto summed = summed_row(statement, map);
  if (!summed) return std::nullopt;
  RegisterTiles tiles;
  const bool has_many = registers >= 32;
  const bool along_memory = *summed + 1 == kMembers;
  const bool has_constant = has_constant_factor(statement, map, *summed);
  const auto packed =
      along_memory && lanes > 1 && !has_constant ? pack_columns(statement, map, *summed, 3 * lanes) : std::nullopt;
  const bool steps_are_lanes = along_memory && !packed;
  if (packed) tiles.packed = packed->reads;
  tiles.lanes = steps_are_lanes ? 1 : lanes;
  // So many accumulators hide a multiply-add's latency and share what they load.
  tiles.rows = steps_are_lanes ? (has_many ? 6 : 3) : has_many ? 8 : has_constant ? 3 : 4;
  tiles.columns = steps_are_lanes ? (has_many ? 4 : 3) : 3 * lanes;
  const size_t first = *summed == 0 ? 1 : 0, column = packed ? packed->column : 3 - *summed - first;
  const size_t row = 3 - *summed - column;
  const auto& outputs = map.outputs;
  tiles.map.inputs = map.inputs;
  const int64_t steps = steps_are_lanes ? kStepsAlongMemory : kSteps;
  tiles.map.outputs = {
      are_few_steps(statement, map, *summed, steps) ? Expr(0) : floordiv(outputs[*summed], Expr(steps)),
      floordiv(outputs[column], Expr(tiles.columns)),
      floordiv(outputs[row], Expr(tiles.rows)),
      outputs[*summed],
      outputs[row],
      outputs[column]};
  tiles.map.outputs.insert(tiles.map.outputs.end(), outputs.begin() + kMembers, outputs.end());
  // A tile is whole for a single step: blocks of steps need not be.
  tiles.factors = {1, 1, 1, 1, tiles.rows, tiles.columns};
  return tiles;
}

Result<bool> write_tile_out(Schedule& s, const std::string& block, const RegisterTiles& tiles) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const std::vector<LoopRef> loops, loops_from_steps(s, ref));
  const auto extent_of = [&](size_t at) -> int64_t {
    const Result<Stmt> loop = s.loop(loops[at]);
    const int64_t* extent = loop ? as_int(loop->as<ForNode>()->extent) : nullptr;
    return extent ? *extent : 0;
  };
  Schedule tried = s;
  if (loops.size() == kMembers && extent_of(1) == tiles.rows && extent_of(2) == tiles.columns) {
    LoopRef columns = loops[2];
    if (tiles.lanes > 1) {
      const auto parts = split(tried, {columns, {kInfer, tiles.lanes}});
      if (!parts || !vectorize(tried, {(*parts)[1]})) return false;
      columns = (*parts)[0];
    }
    if (!unroll(tried, {columns}) || !unroll(tried, {loops[1]})) return false;
    s = tried;
    return true;
  }
  if (tiles.lanes > 1 || loops.size() < 2) return false;
  RescheduleArgs inner;
  inner.blocks = {ref};
  IndexMap& map = inner.maps.emplace_back();
  for (size_t at = 0; at < loops.size(); ++at) map.inputs.push_back(make_var(fmt::format("l{}", at)));
  for (const Var& input : map.inputs | std::views::drop(1)) map.outputs.emplace_back(input);
  map.outputs.emplace_back(map.inputs.front());
  if (reschedule(tried, inner)) s = tried;
  return false;
}

}  // namespace fettle
