#include "generations/ansor/sketch/row_lanes.h"

#include <set>
#include <vector>

#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/lane_reductions.h"
#include "tune/parts/rows.h"

namespace fettle {
namespace {

const std::string* total_of(const BlockNode& block) {
  const Attribute* note = block.annotations.find(kRowLanes);
  return note ? std::get_if<std::string>(note) : nullptr;
}

std::vector<std::string> parts_of(const Func& func, const std::string& total) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(func.root()))
    if (const std::string* of = total_of(*block); of && *of == total && block->name != total)
      names.push_back(block->name);
  return names;
}

// What one part does with one row: its own loops are those behind the first `depth`.
Result<> hold_part(Schedule& s, const std::string& name, size_t depth) {
  constexpr int64_t kMostUnrolled = 16;  // vectors
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const int64_t lanes, lanes_of(s, block));
  FETTLE_TRY(const RowPass pass, row_pass(s, {.name = name, .depth = depth}, lanes));
  if (!pass.vector || !pass.others.empty())
    return fail(ErrorCode::E235, name + " is not one row of lanes", "row_lanes");
  const std::string total = *total_of(*find_block(s.func()->body, name));
  FETTLE_TRY(const std::optional<BlockRef> init,
             schedule_row_pass(s, pass,
                               {.unroll_steps = pass.reduce.size() == 1 && pass.steps * pass.vectors <= kMostUnrolled,
                                .in_registers = true,
                                .tail = Tail::kExact}));
  return init ? annotate(s, {.target = *init, .key = kRowLanes, .value = total}) : Result<>();
}

}  // namespace

Result<> split_rows_into_lanes(Schedule& s) {
  if (!s.target()) return {};
  std::set<std::string> before;
  for (const BlockNode* block : blocks_of(s.func().root())) before.insert(block->name);
  SamplingDecider decider;
  FETTLE_TRY_VOID(lane_reductions(s, *s.target(), decider));
  std::vector<std::string> made, inverses;
  std::vector<std::pair<std::string, std::string>> noted;  // block, total
  for (const BlockNode* block : blocks_of(s.func().root())) {
    if (!before.contains(block->name)) {
      made.push_back(block->name);
      continue;
    }
    // New blocks stand before the one that they are parts of.
    const bool total = !made.empty() && made.front().ends_with("_partial");
    for (const std::string& part : made) {
      if (total)
        noted.emplace_back(part, block->name);
      else
        inverses.push_back(part);
    }
    if (total) noted.emplace_back(block->name, block->name);
    made.clear();
  }
  for (const std::string& name : inverses) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(compute_inline(s, {.block = block}));
  }
  for (const auto& [name, total] : noted) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(annotate(s, {.target = block, .key = kRowLanes, .value = total}));
  }
  return {};
}

bool is_in_row_lanes(const BlockNode& block) { return total_of(block) != nullptr; }

bool is_row_total(const BlockNode& block) {
  const std::string* total = total_of(block);
  return total && *total == block.name;
}

Result<> attach_row_lanes(Schedule& s, const std::string& total) {
  const std::vector<std::string> parts = parts_of(s.func(), total);
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = total}));
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  if (!loops.empty())
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      FETTLE_TRY(const BlockRef moved, get_block(s, {.name = *part}));
      FETTLE_TRY_VOID(compute_at(s, {.block = moved, .loop = loops.back(), .preserve_unit_loops = false}));
    }
  for (const std::string& part : parts) FETTLE_TRY_VOID(hold_part(s, part, loops.size()));
  return {};
}

}  // namespace fettle
