#include "tune/template/templates/attention.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/get_block.h"
#include "schedule/primitives/get_loops.h"
#include "schedule/primitives/parallel.h"
#include "tune/template/rows_with_knobs.h"
#include "tune/template/tiling_knobs.h"
#include "tune/template/workload_kind.h"

namespace fettle {
namespace {

/// The blocks' names, in program order.
struct Parts {
  std::string first, last;           // the products
  std::vector<std::string> between;  // at least one
  size_t rows = 0;                   // loops of the last one between, but its innermost
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
      parts.rows = structure->n_iters() - 1;
    } else if (block->init) {
      return {};
    }
  }
  if (parts.last.empty() || parts.between.empty() || parts.rows == 0) return {};
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
  FETTLE_TRY_VOID(inline_producers(s, parts->first));
  for (const std::string& product : {parts->first, parts->last})
    FETTLE_TRY_VOID(tile_with_knobs(t, product, {.suffix = "_" + product}));
  std::vector<size_t> rows;
  for (size_t i = 0; i < parts->rows; ++i) rows.push_back(i);
  FETTLE_TRY_VOID(fuse_rows_with_knobs(t, parts->between, rows).map([](LoopRef) {}));
  FETTLE_TRY(const int64_t threads, t.define_knob("parallel", {0, 1}));
  if (!threads) return {};
  FETTLE_TRY(const BlockRef out, get_block(s, {.name = parts->between.back()}));
  FETTLE_TRY(std::vector<LoopRef> loops, get_loops(s, {.block = out}));
  loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(rows.size()), loops.end());
  LoopRef loop = loops.front();
  if (loops.size() > 1) {
    FETTLE_TRY(loop, fuse(s, {.loops = loops}));
  }
  return parallel(s, {.loop = loop});
}

}  // namespace

constinit const TemplateDef attention_template{"attention", "two products of matrices with a softmax between them", 20,
                                               matches, body};

}  // namespace fettle
