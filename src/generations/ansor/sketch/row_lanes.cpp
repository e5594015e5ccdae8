#include "generations/ansor/sketch/row_lanes.h"

#include <set>
#include <vector>

#include "generations/ansor/sketch/loop_annotation.h"
#include "generations/ansor/sketch/register_sums.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/lane_reductions.h"

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
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  FETTLE_TRY(const int64_t lanes, lanes_of(s, block));
  std::vector<LoopRef> order, spatial;
  for (size_t i = depth; i < loops.size(); ++i) {
    FETTLE_TRY(const Var var, s.loop_var(loops[i]));
    const BlockNode* node = find_block(s.func()->body, name);
    bool reduces = false;
    for (const IterVar& iter : node->iters)
      reduces |= iter.kind == IterKind::kReduce && uses_var(iter.binding, var.get());
    (reduces ? order : spatial).push_back(loops[i]);
  }
  if (spatial.size() != 1) return fail(ErrorCode::E235, name + " is not one row of lanes", "row_lanes");
  const std::vector<LoopRef> reduction = order;
  FETTLE_TRY(const int64_t extent, extent_of_loops(s, spatial));
  std::vector<LoopRef> parts = spatial;
  if (extent > lanes) {
    FETTLE_TRY(parts, split(s, {.loop = spatial[0], .factors = {kInfer, lanes}}));
  }
  order.insert(order.end(), parts.begin(), parts.end());
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  FETTLE_TRY(const int64_t steps, extent_of_loops(s, reduction));
  if (reduction.size() == 1 && steps * ((extent + lanes - 1) / lanes) <= kMostUnrolled)
    FETTLE_TRY_VOID(unroll(s, {.loop = reduction[0]}));
  if (parts.size() > 1) FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts.back()}));
  FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
  if (reduction.empty()) return {};
  const std::string total = *total_of(*find_block(s.func()->body, name));
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {.block = block, .loop = reduction.front()}));
  return annotate(s, {.target = init, .key = kRowLanes, .value = total});
}

}  // namespace

Result<> split_rows_into_lanes(Schedule& s, int threads) {
  if (!s.target()) return {};
  std::set<std::string> before;
  for (const BlockNode* block : blocks_of(s.func().root())) before.insert(block->name);
  RuleContext ctx{.schedule = s, .target = std::make_shared<const Target>(*s.target()), .threads = threads};
  FETTLE_TRY_VOID(lane_reductions(ctx));
  s = std::move(ctx.schedule);
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
