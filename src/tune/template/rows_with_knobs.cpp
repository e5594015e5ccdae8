#include "tune/template/rows_with_knobs.h"

#include <algorithm>

#include "schedule/dataflow.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/set_scope.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "tune/space/row_group.h"
#include "tune/space/structure.h"
#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// Reductions along contiguous memory: block names, and the shortest of them.
std::vector<std::string> along_rows(const Func& func, int64_t* shortest) {
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    const auto structure = block_structure(func, *block);
    if (!structure || is_matrix_product(*structure)) continue;
    for (size_t i = 0; i < structure->n_iters(); ++i) {
      const bool contiguous =
          structure->reduce[i] &&
          std::ranges::any_of(structure->loads, [&](const AccessPattern& load) { return load.strides[i] == 1; });
      if (!contiguous) continue;
      names.push_back(block->name);
      *shortest = std::min(*shortest, structure->extents[i]);
    }
  }
  return names;
}

// What one block does with one row: reductions and short rows in registers.
Result<> with_one_row(Schedule& s, const std::string& name, size_t rows, bool last, int64_t at_once) {
  FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
  FETTLE_TRY(const Stmt stmt, s.block(block));
  const auto& node = *stmt.as<BlockNode>();
  const auto structure = block_structure(s.func(), node);
  if (!structure) return fail(ErrorCode::E230, "block " + name + " is no plain nest");
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = block}));
  std::optional<size_t> lane, steps;
  for (size_t i = rows; i < loops.size(); ++i) {
    if (structure->reduce[i]) steps = i;
    if (!structure->reduce[i] && structure->store.strides[i] == 1 && structure->extents[i] > 1) lane = i;
  }
  const int64_t lanes = lanes_of(s);
  int64_t kept = 1;
  for (size_t i = rows; i < loops.size(); ++i)
    if (!structure->reduce[i]) kept *= structure->extents[i];
  Loops order;
  if (steps) order.push_back(loops[*steps]);
  // What is in registers is addressed by constants.
  const bool few_steps = steps && structure->extents[*steps] <= 16;
  if (lane) {
    int64_t width = lanes;
    while (width / 2 >= structure->extents[*lane]) width /= 2;
    const bool few = kept <= 8 * lanes;
    std::vector<IntRef> factors = {kInfer, width};
    if (last && !few) factors = {kInfer, at_once, width};
    FETTLE_TRY(
        const Loops parts,
        split(s, {.loop = loops[*lane], .factors = factors, .tail = last && !few ? Tail::kPartition : Tail::kMask}));
    order.insert(order.end(), parts.begin(), parts.end());
    if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    if (few) FETTLE_TRY_VOID(unroll(s, {.loop = parts[0]}));
    if (parts.size() == 3) FETTLE_TRY_VOID(unroll(s, {.loop = parts[1]}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = parts.back()}));
  }
  const bool others = loops.size() > rows + (lane ? 1u : 0u) + (steps ? 1u : 0u);
  if (!last && kept <= 8 * lanes && !others) FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
  if (few_steps) FETTLE_TRY_VOID(unroll(s, {.loop = loops[*steps]}));
  if (steps) FETTLE_TRY_VOID(decompose_reduction(s, {.block = block, .loop = loops[*steps]}).map([](BlockRef) {}));
  return {};
}

}  // namespace

bool works_on_rows(const Func& func) {
  if (!func->body.as<BlockNode>()) return false;
  const auto group = row_group(func);
  return group && !group->rows_are_contiguous && !group->rows.empty();
}

RowReductions row_reductions(const Func& func) {
  RowReductions found;
  for (const BlockNode* block : blocks_of(func.root())) {
    const StoreNode* store = block->init ? single_store(*block) : nullptr;
    const auto* value = store ? store->value.as<BinaryNode>() : nullptr;
    if (!value) continue;
    found.maxima += value->op == BinaryOp::kMax ? 1 : 0;
    found.sums += value->op == BinaryOp::kAdd ? 1 : 0;
  }
  return found;
}

Result<> lanes_with_knobs(TemplateContext& t) {
  Schedule& s = t.schedule();
  const int64_t lanes = lanes_of(s);
  int64_t shortest = INT64_MAX;
  const std::vector<std::string> reductions = along_rows(s.func(), &shortest);
  std::vector<int64_t> wide;
  for (int64_t n : {1, 2, 4})
    if (n * lanes <= shortest) wide.push_back(n);
  if (wide.empty()) wide = {0};
  FETTLE_TRY(const int64_t vectors, t.define_knob("vectors", wide));
  if (vectors > 0)
    for (const std::string& name : reductions) {
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
      FETTLE_TRY(const std::vector<BlockRef> parts,
                 reformulate(s, {.block = block, .kind = "split_reduction", .numbers = {vectors * lanes, 1}}));
      FETTLE_TRY_VOID(reformulate(s, {.block = parts[1], .kind = "pairwise_reduction"}).map([](const auto&) {}));
    }
  return {};
}

Result<> reciprocal_with_knobs(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const int64_t reciprocal, t.define_knob("reciprocal", {0, 1}));
  if (!reciprocal) return {};
  Schedule trial = s;
  FETTLE_TRY(const BlockRef block, get_block(trial, {.name = name}));
  if (reformulate(trial, {.block = block, .kind = "shared_reciprocal"})) s = std::move(trial);
  return {};
}

Result<LoopRef> fuse_rows_with_knobs(TemplateContext& t, const std::vector<std::string>& blocks,
                                     const std::vector<size_t>& row_loops) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const BlockRef out, get_block(s, {.name = blocks.back()}));
  FETTLE_TRY(const Loops loops, get_loops(s, {.block = out}));
  Loops rows, order;
  for (size_t row : row_loops) rows.push_back(loops[row]);
  order = rows;
  for (size_t i = 0; i < loops.size(); ++i)
    if (std::ranges::find(row_loops, i) == row_loops.end()) order.push_back(loops[i]);
  if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
  for (size_t b = blocks.size() - 1; b-- > 0;) {
    FETTLE_TRY(const BlockRef part, get_block(s, {.name = blocks[b]}));
    FETTLE_TRY_VOID(compute_at(s, {.block = part, .loop = rows.back(), .preserve_unit_loops = false}));
  }
  FETTLE_TRY(const int64_t at_once, t.define_knob("unroll", {1, 2, 4}));
  for (const std::string& name : blocks)
    FETTLE_TRY_VOID(with_one_row(s, name, rows.size(), name == blocks.back(), at_once));
  return rows.front();
}

Result<> rows_with_knobs(TemplateContext& t) {
  FETTLE_TRY_VOID(lanes_with_knobs(t));
  FETTLE_TRY_VOID(reciprocal_with_knobs(t, blocks_of(t.schedule().func().root()).back()->name));
  const auto group = row_group(t.schedule().func());
  if (!group || group->rows.empty()) return fail(ErrorCode::E230, "the blocks have no rows in common");
  FETTLE_TRY(const LoopRef first, fuse_rows_with_knobs(t, group->blocks, group->rows));
  return t.define_annotate("parallel", {first}, {.policy = AnnotateOptions::Policy::kTryParallel}).map([](const auto&) {
  });
}

}  // namespace fettle
