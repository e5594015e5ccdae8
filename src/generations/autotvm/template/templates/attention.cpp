// Two products of matrices, and between them what works row by row: scores, their softmax, and what they weigh.
//   S = Q @ K^T;   M, E, T, P: the softmax of S's rows;   Y = P @ V
// Each product in register tiles with knobs of its own ("vectors_S", "tile_i_S", …), the rows between fused as in
// softmax.

#include <algorithm>

#include "generations/autotvm/template/rows_with_knobs.h"
#include "generations/autotvm/template/template_def.h"
#include "generations/autotvm/template/tiling_knobs.h"
#include "generations/autotvm/template/workload_kind.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

/// The blocks' names, in program order.
struct Parts {
  std::string first, last;           // the products
  std::vector<std::string> between;  // at least one
};

std::optional<Parts> parts_of(const Func& func) {
  Parts parts;
  for (const BlockNode* block : blocks_of(func.root())) {
    if (!parts.last.empty()) return {};
    const auto structure = block_structure(func, *block);
    if (!structure) return {};
    if (block->init && is_matrix_product(*structure)) {
      (parts.first.empty() ? parts.first : parts.last) = block->name;
    } else if (!parts.first.empty()) {
      parts.between.push_back(block->name);
    } else if (block->init) {
      return {};
    }
  }
  if (parts.last.empty() || parts.between.empty()) return {};
  return parts;
}

bool matches(const Func& workload) {
  if (!workload->body.as<BlockNode>()) return false;
  const RowReductions reductions = row_reductions(workload);
  return reductions.maxima >= 1 && parts_of(workload).has_value();
}

Result<> body(TemplateContext& t) {
  Schedule& s = t.schedule();
  FETTLE_TRY_VOID(lanes_with_knobs(t));
  auto parts = parts_of(s.func());
  if (!parts) return fail(ErrorCode::E230, "no products with rows between them");
  FETTLE_TRY_VOID(reciprocal_with_knobs(t, parts->between.back()));
  parts = parts_of(s.func());
  if (!parts) return fail(ErrorCode::E230, "no products with rows between them");
  inline_producers(s, parts->first);
  for (const std::string& product : {parts->first, parts->last})
    FETTLE_TRY_VOID(tile_with_knobs(t, product, {.unroll_steps = false, .suffix = "_" + product}));
  FETTLE_TRY(const std::vector<LoopRef> rows, fuse_rows_with_knobs(t, parts->between, false));
  FETTLE_TRY(const int64_t threads, t.define_knob("parallel", {0, 1}));
  return threads ? parallel_together(s, rows, static_cast<int>(rows.size())) : Result<>();
}

}  // namespace

extern constinit const TemplateDef attention_template{
    "attention", "two products of matrices with a softmax between them", 20, matches, body};

}  // namespace fettle
