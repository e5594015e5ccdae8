#include "generations/autotvm/template/rows_with_knobs.h"

#include <algorithm>

#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/lane_reductions.h"
#include "tune/parts/rows.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

using Loops = std::vector<LoopRef>;

// Reductions along contiguous memory: block names and steps.
std::vector<std::pair<std::string, int64_t>> along_rows(const Func& func) {
  std::vector<std::pair<std::string, int64_t>> found;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!block->init) continue;
    const auto structure = block_structure(func, *block);
    if (!structure || is_matrix_product(*structure)) continue;
    for (size_t i = 0; i < structure->n_iters(); ++i) {
      const bool contiguous =
          structure->reduce[i] &&
          std::ranges::any_of(structure->loads, [&](const AccessPattern& load) { return load.strides[i] == 1; });
      if (contiguous) found.emplace_back(block->name, structure->extents[i]);
    }
  }
  return found;
}

constexpr int64_t kMostUnrolled = 64;  // vectors of a whole row
constexpr int64_t kWidest = 4;         // vectors that a reduction along a row takes in one step

bool is_long(const RowPart& part) { return part.vectors > kMostKeptOfRow && !part.reduces; }

/// How all blocks walk through rows.
struct Passes {
  bool whole = false;        // unrolled
  bool interleaved = false;  // a few vectors of each of several rows in turn
};

// What one block does with one row, or with several at a time. How many vectors of it may be kept in registers:
// reductions and short rows; 0: none.
Result<int64_t> with_rows(Schedule& s, const RowPart& part, int64_t at_once, const Passes& passes) {
  constexpr int64_t kFewSteps = 16;
  const int64_t lanes = lanes_of(s);
  FETTLE_TRY(const RowPass pass, row_pass(s, part, lanes));
  // What is in registers is addressed by constants.
  RowPassOptions options{.rows = RowsAt::kInsideSteps,
                         .unroll_turns = passes.whole,
                         .unroll_steps = passes.whole || pass.steps <= kFewSteps,
                         .cut_one_vector = true};
  if (pass.vector && pass.vector->extent > kMostKeptOfRow * lanes) {
    options.at_once = at_once;
    options.tail = Tail::kPartition;
    if (passes.interleaved) options.rows = RowsAt::kInsideBlocks;
  }
  FETTLE_TRY_VOID(schedule_row_pass(s, pass, options));
  const int64_t kept = pass.elements * pass.n_rows();
  const bool keeps = !part.last && kept <= kMostKeptOfRow * lanes && pass.others.empty() && pass.reduce.size() <= 1;
  return keeps ? (kept + lanes - 1) / lanes : 0;
}

// Reductions first, as far as registers go: what stays in memory is read and written at each of their steps.
Result<> keep_in_registers(Schedule& s, const std::vector<RowPart>& parts, const std::vector<int64_t>& kept) {
  int64_t left = target_or_usual(s)->vector_registers;
  for (const bool reductions : {true, false})
    for (size_t i = 0; i < parts.size(); ++i) {
      // What a reduction reads is rounded up to its steps.
      const int64_t taken = reductions || kept[i] == 1 ? kept[i] : (kept[i] + kWidest - 1) / kWidest * kWidest;
      if (taken == 0 || taken > left || parts[i].reduces != reductions) continue;
      left -= taken;
      FETTLE_TRY(const BlockRef block, get_block(s, {.name = parts[i].name}));
      FETTLE_TRY_VOID(set_scope(s, {.block = block, .scope = kScopeRegister}));
    }
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
    found.maxima += is_maximum(value->op) ? 1 : 0;
    found.sums += value->op == BinaryOp::kAdd ? 1 : 0;
  }
  return found;
}

Result<> lanes_with_knobs(TemplateContext& t) {
  Schedule& s = t.schedule();
  const int64_t lanes = lanes_of(s);
  for (const auto& [name, extent] : along_rows(s.func())) {
    std::vector<int64_t> wide;
    for (int64_t n = 1; n <= kWidest; n *= 2)
      if (n * lanes <= extent) wide.push_back(n);
    if (wide.empty()) continue;
    FETTLE_TRY(const int64_t vectors, t.define_knob("vectors_" + name, wide));
    FETTLE_TRY(const BlockRef block, get_block(s, {.name = name}));
    FETTLE_TRY_VOID(reduce_in_lanes(s, block, vectors * lanes));
  }
  return {};
}

Result<> reciprocal_with_knobs(TemplateContext& t, const std::string& name) {
  Schedule& s = t.schedule();
  FETTLE_TRY(const int64_t reciprocal, t.define_knob("reciprocal", {0, 1}));
  if (!reciprocal) return {};
  try_shared_reciprocal(s, name);
  return {};
}

Result<Loops> fuse_rows_with_knobs(TemplateContext& t, const std::vector<std::string>& blocks, bool several) {
  Schedule& s = t.schedule();
  std::vector<const BlockNode*> nodes;
  for (const BlockNode* node : blocks_of(s.func().root()))
    if (std::ranges::find(blocks, node->name) != blocks.end()) nodes.push_back(node);
  const auto group = row_group(s.func(), nodes);
  if (!group || group->rows.empty() || group->rows_are_contiguous)
    return fail(ErrorCode::E230, "the blocks have no rows in common");
  FETTLE_TRY(std::vector<RowPart> parts, row_parts(s.func(), *group, lanes_of(s)));
  const auto last = block_structure(s.func(), *nodes.back());

  int64_t longest = 0;
  std::vector<int64_t> vectors_at_once(parts.size(), 1);
  for (size_t b = 0; b < parts.size(); ++b) {
    longest = std::max(longest, parts[b].vectors);
    if (!is_long(parts[b])) continue;
    FETTLE_TRY(vectors_at_once[b], t.define_knob("unroll_" + parts[b].name, {1, 2, 4}));
  }
  size_t iterating = 0;
  for (const size_t row : group->rows) iterating += last->extents[row] > 1 ? 1 : 0;
  const int64_t inner = last->extents[group->rows.back()];
  FuseRowsOptions options{.run_row = group->rows.size() - 1};
  Passes passes;
  if (several) {
    std::vector<int64_t> counts = {1};
    if (inner >= 2) counts.push_back(2);
    FETTLE_TRY(options.at_once, t.define_knob("rows", counts));
    counts = {0};
    for (int64_t n = 2; n <= 64 && iterating == 1; n *= 2)
      if (2 * n <= inner) counts.push_back(n);
    FETTLE_TRY(options.runs, t.define_knob("runs", counts));
    FETTLE_TRY(const int64_t unrolled,
               t.define_knob("whole", longest > kMostKeptOfRow && longest <= kMostUnrolled ? std::vector<int64_t>{0, 1}
                                                                                           : std::vector<int64_t>{0}));
    passes.whole = unrolled != 0;
    FETTLE_TRY(const int64_t interleaved, t.define_knob("interleaved", {0, 1}));
    passes.interleaved = interleaved != 0;
    t.constrain("one row is not interleaved", [](const ConfigView& v) { return v["interleaved"][0] < v["rows"][0]; });
    t.constrain("several whole rows are not too much code", [longest](const ConfigView& v) {
      return v["whole"][0] == 0 || v["rows"][0] * longest <= 2 * kMostUnrolled;
    });
  }

  FETTLE_TRY(const Loops rows, fuse_rows(s, *group, parts, options));
  std::vector<int64_t> kept(parts.size());
  for (size_t b = 0; b < parts.size(); ++b) {
    FETTLE_TRY(kept[b], with_rows(s, parts[b], vectors_at_once[b], passes));
  }
  FETTLE_TRY_VOID(keep_in_registers(s, parts, kept));
  Loops found;
  for (const LoopRef& loop : rows) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    if (!found.empty() || !is_one(stmt.as<ForNode>()->extent)) found.push_back(loop);
  }
  return found.empty() ? Loops{rows.front()} : found;
}

Result<> rows_with_knobs(TemplateContext& t) {
  FETTLE_TRY_VOID(lanes_with_knobs(t));
  FETTLE_TRY_VOID(reciprocal_with_knobs(t, blocks_of(t.schedule().func().root()).back()->name));
  std::vector<std::string> names;
  for (const BlockNode* block : blocks_of(t.schedule().func().root())) names.push_back(block->name);
  FETTLE_TRY(const Loops rows, fuse_rows_with_knobs(t, names));
  FETTLE_TRY_VOID(t.define_annotate("parallel", {rows.front()}, {.policy = AnnotateOptions::Policy::kTryParallel}));
  t.constrain("runs are for threads", [](const ConfigView& v) {
    return v["runs"][0] == 0 || v["parallel"][0] == static_cast<int64_t>(LoopAnnotation::kParallel);
  });
  return {};
}

}  // namespace fettle
