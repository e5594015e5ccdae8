#include "generations/ansor/sketch/row_lanes.h"

#include <set>
#include <vector>

#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/lane_reductions.h"
#include "tune/parts/loops.h"
#include "tune/parts/rows.h"

namespace fettle {
namespace {

const std::string* total_of(const BlockNode& block) {
  const Attribute* annotation = block.annotations.find(kRowLanes);
  return annotation ? std::get_if<std::string>(annotation) : nullptr;
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
  std::vector<std::pair<std::string, std::string>> annotated;  // block, total
  for (const BlockNode* block : blocks_of(s.func().root())) {
    if (!before.contains(block->name)) {
      made.push_back(block->name);
      continue;
    }
    // New blocks stand before the one that they are parts of.
    const bool total = !made.empty() && made.front().ends_with("_partial");
    for (const std::string& part : made) {
      if (total)
        annotated.emplace_back(part, block->name);
      else
        inverses.push_back(part);
    }
    if (total) annotated.emplace_back(block->name, block->name);
    made.clear();
  }
  for (const std::string& name : inverses) {
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(compute_inline(s, {.block = block}));
  }
  for (const auto& [name, total] : annotated) {
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

bool may_move(const Func& func, const BlockNode& block) {
  if (!is_complete(block, func.root()) && !is_reduction(block, func.root())) return false;
  if (is_scheduled(block) || block.writes.size() != 1) return false;
  if (is_in_row_lanes(block) && !is_row_total(block)) return false;  // it goes where its total goes
  const BufferNode* buffer = block.writes[0].buffer.get();
  if (is_param(func, buffer) || consumers_of(func.root(), buffer).empty()) return false;
  const auto loops = loops_around(func, &block);
  return !loops.empty() && blocks_under(Stmt(Ref<const StmtNode>(loops.front()))).size() == 1;
}

Result<> move_to(Schedule& s, BlockRef block, int64_t place) {
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const std::string name = node->name;
  const bool total = is_row_total(*node);
  if (place == kInline) {
    if (total) return fail(ErrorCode::E235, "a total is not inlined", "move_to");
    return compute_inline(s, {.block = block});
  }
  if (place != kStay) {
    const auto readers = consumers_of(s.func().root(), node->writes[0].buffer.get());
    FETTLE_TRY(const BlockRef reader, get_block(s, {.name = std::string(readers.front()->name)}));
    FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {reader}));
    if (static_cast<size_t>(place) >= loops.size()) return fail(ErrorCode::E235, "no such loop", "move_to");
    FETTLE_TRY_VOID(
        compute_at(s, {.block = block, .loop = loops[static_cast<size_t>(place)], .preserve_unit_loops = !total}));
  }
  return total ? attach_row_lanes(s, name) : Result<>();
}

}  // namespace fettle
