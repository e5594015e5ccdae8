#include "generations/ansor/sketch/loop_annotation.h"

#include <algorithm>

#include "generations/ansor/sketch/row_lanes.h"
#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

bool moves_spatial_only(const std::vector<const BlockNode*>& below, const VarNode* var) {
  return std::ranges::all_of(below, [&](const BlockNode* block) {
    return std::ranges::all_of(block->iters, [&](const IterVar& iter) {
      return iter.kind == IterKind::kSpatial || !uses_var(iter.binding, var);
    });
  });
}

// below: the blocks under the loop.
bool is_free(const ForNode& loop, const std::vector<const BlockNode*>& below) {
  return loop.loop_kind == ForKind::kSerial && as_int(loop.extent) && moves_spatial_only(below, loop.var.get());
}

}  // namespace

std::vector<std::string> nest_blocks(const Func& func) {
  std::vector<std::string> result;
  const auto add = [&](const Stmt& stmt) {
    if (stmt.kind() != StmtKind::kFor) return;
    const BlockNode* deepest = nullptr;
    size_t depth = 0;
    for (const BlockNode* block : blocks_under(stmt)) {
      const size_t loops = loops_between(stmt, block).size();
      // Those of row_lanes.h have their lanes already.
      const bool has_lanes = is_in_row_lanes(*block);
      const bool reduces = static_cast<bool>(block->init), before = deepest && static_cast<bool>(deepest->init);
      if (deepest && has_lanes != is_in_row_lanes(*deepest)) {
        if (has_lanes) continue;
      } else if (deepest && (reduces != before ? before : loops <= depth)) {
        continue;
      }
      deepest = block;
      depth = loops;
    }
    if (deepest) result.push_back(deepest->name);
  };
  const Stmt& body = func.root().body;
  if (const auto* seq = body.as<SeqNode>())
    for (const Stmt& stmt : seq->stmts) add(stmt);
  else
    add(body);
  return result;
}

Result<std::vector<LoopRef>> outer_spatial_loops(Schedule& s, BlockRef block) {
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  std::vector<LoopRef> result;
  std::vector<const BlockNode*> below;  // of all that follow: one loop stands directly in the other
  for (size_t i = 0; i + 1 < loops.size(); ++i) {
    FETTLE_TRY(const Stmt stmt, s.loop(loops[i]));
    const auto& loop = *stmt.as<ForNode>();
    if (i == 0) below = blocks_under(loop.body);
    if (!is_free(loop, below)) break;
    result.push_back(loops[i]);
    if (loop.body.kind() != StmtKind::kFor) break;
  }
  return result;
}

Result<std::vector<LoopRef>> inner_spatial_loops(Schedule& s, BlockRef block) {
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {block}));
  std::vector<LoopRef> result;
  std::vector<const BlockNode*> below;  // as above
  for (size_t i = loops.size(); i-- > 0;) {
    FETTLE_TRY(const Stmt stmt, s.loop(loops[i]));
    const auto& loop = *stmt.as<ForNode>();
    const StmtKind inside = loop.body.kind();
    if (i + 1 == loops.size()) below = blocks_under(loop.body);
    if (!is_free(loop, below) || (inside != StmtKind::kFor && inside != StmtKind::kBlock)) break;
    result.insert(result.begin(), loops[i]);
  }
  return result;
}

bool wants_lanes_inside(const Func& func, const BlockNode& block) {
  const auto structure = block_structure(func, block);
  if (!structure || std::ranges::none_of(structure->reduce, [](bool reduces) { return reduces; })) return false;
  const auto inner = std::find(structure->reduce.rbegin(), structure->reduce.rend(), false);
  if (inner == structure->reduce.rbegin() || inner == structure->reduce.rend()) return false;
  const auto at = static_cast<size_t>(structure->reduce.rend() - inner) - 1;
  return structure->store.strides[at] == 1 && std::ranges::all_of(structure->loads, [&](const AccessPattern& load) {
           return load.strides[at] == 0 || load.strides[at] == 1;
         });
}

Result<LoopRef> bring_lanes_inside(Schedule& s, BlockRef block, int64_t most) {
  FETTLE_TRY(LoopsByKind loops, loops_by_kind(s, block));
  std::vector<LoopRef>& order = loops.spatial;
  if (order.empty()) return fail(ErrorCode::E235, "nothing is spatial", "bring_lanes_inside");
  LoopRef inner = order.back();
  order.pop_back();
  FETTLE_TRY(const int64_t extent, extent_of_loops(s, {inner}));
  if (extent > most) {
    FETTLE_TRY(const auto parts, split(s, {.loop = inner, .factors = {kInfer, most}, .tail = Tail::kMask}));
    order.push_back(parts[0]);
    inner = parts[1];
  }
  order.insert(order.end(), loops.reduction.begin(), loops.reduction.end());
  order.push_back(inner);
  FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  return inner;
}

Result<int64_t> extent_of_loops(const Schedule& s, const std::vector<LoopRef>& loops) {
  int64_t product = 1;
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(const Stmt stmt, s.loop(ref));
    const int64_t* extent = as_int(stmt.as<ForNode>()->extent);
    if (!extent || __builtin_mul_overflow(product, *extent, &product)) return int64_t{0};
  }
  return product;
}

Result<LoopRef> fused_loop(Schedule& s, const std::vector<LoopRef>& loops) {
  if (loops.size() == 1) return loops.front();
  return fuse(s, {.loops = loops});
}

Result<LoopRef> fused_reduction(Schedule& s, BlockRef block) {
  FETTLE_TRY(LoopsByKind loops, loops_by_kind(s, block));
  if (loops.reduction.empty()) return fail(ErrorCode::E235, "no loop of a reduction", "fused_reduction");
  std::vector<LoopRef>& order = loops.spatial;
  order.insert(order.end(), loops.reduction.begin(), loops.reduction.end());
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  return fused_loop(s, loops.reduction);
}

Result<std::vector<LoopRef>> cut_reduction(Schedule& s, BlockRef block, int64_t max_innermost) {
  FETTLE_TRY(const LoopRef whole, fused_reduction(s, block));
  FETTLE_TRY(const Var var, s.loop_var(whole));
  FETTLE_TRY(const std::vector<ValueRef> sizes,
             sample_perfect_tile(s, {.loop = whole, .n = 2, .max_innermost = max_innermost, .name = var->name}));
  return split(s, {.loop = whole, .factors = {sizes[0], sizes[1]}});
}

Result<> decompose_reductions(Schedule& s) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (block->init && !is_scheduled(*block) && is_reduction(*block, s.func().root())) names.push_back(block->name);
  for (const std::string& name : names) {
    Schedule work = s;
    FETTLE_TRY(const BlockRef block, get_block(work, {.name = name}));
    FETTLE_TRY(const LoopsByKind loops, loops_by_kind(work, block));
    if (!loops.reduction.empty() && decompose_reduction(work, {.block = block, .loop = loops.reduction.front()}))
      s = std::move(work);
  }
  return {};
}

}  // namespace fettle
