#include "tune/parts/copies.h"

#include "analysis/sites.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"
#include "tune/parts/extent.h"
#include "tune/parts/loops.h"
#include "tune/parts/structure.h"
#include "tune/parts/transposing.h"

namespace fettle {
namespace {

// Of the loops `own`, with these variables and extents, the one whose steps lie side by side in what the block writes;
// or none, their number.
size_t vector_loop(const BlockNode& block, const std::vector<Var>& vars, const std::vector<Extent>& extents,
                   int64_t lanes, const IntEnv& typical) {
  size_t vector = vars.size();
  const StoreNode* store = single_store(block);
  if (!store) return vector;
  const VarMap bindings = binding_map(block);
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
  const std::vector<int64_t> strides = access_strides(*store->buffer, indices, vars, typical);
  for (size_t i = 0; i < vars.size(); ++i) {
    if (strides[i] == 1 && extents[i].value > 1) vector = i;
    // Channels in blocks of one vector: contiguous within a block.
    if (strides[i] == AccessPattern::kIrregular && extents[i].constant && extents[i].value % lanes == 0 &&
        uses_var(indices.back(), vars[i].get()) && vector == vars.size())
      vector = i;
  }
  return vector;
}

}  // namespace

Result<> vectorize_copy(Schedule& s, BlockRef block, size_t first, int64_t lanes, bool unroll_rows) {
  FETTLE_TRY(std::vector<LoopRef> own, get_loops(s, {.block = block}));
  own.erase(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(std::min(first, own.size())));
  if (own.empty()) return {};
  std::vector<Var> vars;
  std::vector<Extent> extents;
  const IntEnv typical = typical_values(s.func());
  for (const LoopRef& loop : own) {
    FETTLE_TRY(const Stmt stmt, s.loop(loop));
    vars.push_back(stmt.as<ForNode>()->var);
    extents.push_back(extent_of(stmt.as<ForNode>()->extent, typical));
  }
  FETTLE_TRY(const BlockNode* node, block_node(s, block));
  const size_t vector = vector_loop(*node, vars, extents, lanes, typical);
  std::vector<LoopRef> rows;
  const auto add_row = [&](size_t i) {
    if (extents[i].constant) rows.push_back(own[i]);
  };
  if (vector < own.size()) {
    std::vector<LoopRef> order;
    LoopRef inner = own[vector];
    std::vector<LoopRef> pieces;  // vectors of one row
    if (!extents[vector].is(lanes)) {
      FETTLE_TRY(const std::vector<LoopRef> parts,
                 split(s, {.loop = inner, .factors = {kInfer, lanes}, .tail = Tail::kMask}));
      pieces = {parts[0]};
      if (extents[vector].constant) rows.push_back(parts[0]);
      inner = parts[1];
    }
    for (size_t i = 0; i < own.size(); ++i) {
      if (i == vector) continue;
      order.push_back(own[i]);
      add_row(i);
    }
    // What is counted goes through memory row by row.
    order.insert(unroll_rows ? order.begin() : order.end(), pieces.begin(), pieces.end());
    order.push_back(inner);
    if (order.size() > 1) FETTLE_TRY_VOID(reorder(s, {.loops = order}));
    FETTLE_TRY_VOID(vectorize(s, {.loop = inner}));
  } else {
    for (size_t i = 0; i < own.size(); ++i) add_row(i);
  }
  if (unroll_rows)
    for (const LoopRef& loop : rows) FETTLE_TRY_VOID(unroll(s, {.loop = loop}));
  return {};
}

Result<> fill_in_vectors(Schedule& s, BlockRef panels, int64_t lanes) {
  FETTLE_TRY(const bool transposed, copy_in_transposed_tiles(s, panels, lanes, true));
  if (transposed) return {};
  FETTLE_TRY(const std::vector<LoopRef> loops, get_loops(s, {.block = panels}));
  if (loops.size() < 2) return {};
  FETTLE_TRY(const std::vector<LoopRef> parts,
             split(s, {.loop = loops.back(), .factors = {kInfer, lanes}, .tail = Tail::kMask}));
  FETTLE_TRY_VOID(vectorize(s, {.loop = parts[1]}));
  return parallel(s, {.loop = loops.front()});
}

}  // namespace fettle
