#include "generations/ansor/sketch/row_lanes.h"
#include "generations/metaschedule/rules/tile_block.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/decider.h"

namespace fettle {
namespace {

// As sample_compute_location, which would inline it as well: what a total stands for is a reduction.
Result<int64_t> sample_place_of_total(Schedule& s, BlockRef block) {
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
  return sampling_decider().pick(s, {"location", places});
}

}  // namespace

ScheduleRule random_compute_location() {
  return {"random_compute_location",
          [](const TuneContext&, const Schedule& s, const std::string& name) -> Result<std::vector<Schedule>> {
            const Func func = s.func();
            const BlockNode& node = *find_block(func->body, name);
            if (!may_move(func, node) || is_tiled(func, name)) return std::vector{s};
            Schedule moved = s;
            moved.set_address_prefix("random_compute_location/" + name);
            FETTLE_TRY(const BlockRef block, get_block(moved, {.name = name}));
            int64_t place = kStay;
            if (is_row_total(node)) {
              FETTLE_TRY(place, sample_place_of_total(moved, block));
            } else {
              FETTLE_TRY(const ValueRef drawn, sample_compute_location(moved, {.block = block, .name = "location"}));
              FETTLE_TRY(place, moved.value(IntRef(drawn)));
            }
            FETTLE_TRY_VOID(move_to(moved, block, place));
            return std::vector{std::move(moved)};
          }};
}

}  // namespace fettle
