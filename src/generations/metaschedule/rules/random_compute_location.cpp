#include "generations/ansor/sketch/row_lanes.h"
#include "generations/ansor/sketch/scheduled.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Under the root, alone in its nest, not tiled, and read by others.
bool can_move(const Func& func, const BlockNode& block) {
  if (!is_complete(block, func.root()) && !is_reduction(block, func.root())) return false;
  if (block.writes.size() != 1 || is_tiled(func, block.name)) return false;
  if (is_scheduled(block)) return false;
  if (is_in_row_lanes(block) && !is_row_total(block)) return false;  // it goes where its total goes
  const BufferNode* buffer = block.writes[0].buffer.get();
  if (is_param(func, buffer) || consumers_of(func.root(), buffer).empty()) return false;
  const auto loops = loops_around(func, &block);
  return !loops.empty() && blocks_under(Stmt(Ref<const StmtNode>(loops.front()))).size() == 1;
}

// As sample_compute_location, which would inline it as well: what a total stands for is a reduction.
Result<ValueRef> sample_place_of_total(Schedule& s, BlockRef block) {
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto readers = consumers_of(s.func().root(), stmt.as<BlockNode>()->writes[0].buffer.get());
  std::vector<int64_t> places = {kStay};
  const auto loops = loops_around(s.func(), readers.front());
  for (size_t depth = 0; depth < loops.size(); ++depth) {
    Schedule trial = s;
    FETTLE_TRY(const BlockRef reader, get_block(trial, {.name = std::string(readers.front()->name)}));
    FETTLE_TRY(const auto around, get_loops(trial, {reader}));
    if (compute_at(trial, {.block = block, .loop = around[depth]})) places.push_back(static_cast<int64_t>(depth));
  }
  return sample_categorical(
      s, {.candidates = places, .probabilities = std::vector<double>(places.size(), 1.0), .name = "location"});
}

}  // namespace

ScheduleRule random_compute_location() {
  return {
      "random_compute_location",
      [](const TuneContext&, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
        const Func func = s.func();
        const BlockNode& node = *find_block(func->body, name);
        if (!can_move(func, node)) return std::vector{s};
        Schedule moved = s;
        moved.set_address_prefix("random_compute_location/" + name);
        FETTLE_TRY(const BlockRef block, get_block(moved, {.name = name}));
        const bool total = is_row_total(node);
        FETTLE_TRY(const ValueRef drawn, total ? sample_place_of_total(moved, block)
                                               : sample_compute_location(moved, {.block = block, .name = "location"}));
        FETTLE_TRY(const int64_t place, moved.value(IntRef(drawn)));
        if (place == kInline) FETTLE_TRY_VOID(compute_inline(moved, {.block = block}));
        if (place >= 0) {
          const auto readers = consumers_of(func.root(), node.writes[0].buffer.get());
          FETTLE_TRY(const BlockRef reader, get_block(moved, {.name = readers.front()->name}));
          FETTLE_TRY(const auto loops, get_loops(moved, {reader}));
          FETTLE_TRY_VOID(compute_at(
              moved, {.block = block, .loop = loops.at(static_cast<size_t>(place)), .preserve_unit_loops = !total}));
        }
        if (total) FETTLE_TRY_VOID(attach_row_lanes(moved, name));
        return std::vector{std::move(moved)};
      }};
}

}  // namespace fettle
