#include "polyhedral/lanes.h"

#include <algorithm>

#include "analysis/sites.h"
#include "arith/linear.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/edit.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// What the block's only store is indexed with, in variables of loops. Empty: it has another body.
std::vector<Expr> written_indices(const BlockNode& block) {
  const auto* store = block.body.as<StoreNode>();
  if (!store) return {};
  const VarMap bindings = binding_map(block);
  std::vector<Expr> indices;
  for (const Expr& index : store->indices) indices.push_back(substitute(index, bindings));
  return indices;
}

}  // namespace

bool moves_what_is_written(const BlockNode& block, const ForNode& loop) {
  const std::vector<Expr> indices = written_indices(block);
  return indices.empty() ||
         std::ranges::any_of(indices, [&](const Expr& index) { return uses_var(index, loop.var.get()); });
}

bool writes_along(const BlockNode& block, const ForNode& loop) {
  std::vector<Expr> indices = written_indices(block);
  if (indices.empty()) return false;
  const auto along = split_linear(indices.back(), loop.var.get());
  indices.pop_back();
  return along && is_one(along->coeff) &&
         std::ranges::none_of(indices, [&](const Expr& index) { return uses_var(index, loop.var.get()); });
}

Result<> make_lanes(Schedule& s, const std::string& block, int64_t lanes) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  if (loops.empty()) return {};
  FETTLE_TRY(const Stmt innermost, s.loop(loops.back()));
  const auto& loop = *innermost.as<ForNode>();
  const int64_t* extent = as_int(loop.extent);
  if (loop.body.kind() != StmtKind::kBlock || loop.loop_kind != ForKind::kSerial) return {};
  if (extent && *extent < lanes) return {};
  Schedule tried = s;
  LoopRef vector = loops.back();
  if (!extent || *extent > lanes) {
    const auto parts = split(tried, {vector, {kInfer, lanes}, Tail::kMask});
    if (!parts) return {};
    vector = (*parts)[1];
  }
  if (vectorize(tried, {vector})) s = tried;
  return {};
}

Result<> make_lanes_along_memory(Schedule& s, const std::string& block, int64_t lanes) {
  const BlockNode& node = *find_block(s.func()->body, block);
  const std::vector<const ForNode*> loops = loops_around(s.func(), &node);
  return lanes > 1 && !loops.empty() && writes_along(node, *loops.back()) ? make_lanes(s, block, lanes) : Result<>();
}

Result<> unroll_innermost(Schedule& s, const std::string& block, const IntRef& factor) {
  FETTLE_TRY(const int64_t copies, s.value(factor));
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  for (size_t at = loops.size(); at-- > 0;) {
    FETTLE_TRY(const Stmt stmt, s.loop(loops[at]));
    const auto& loop = *stmt.as<ForNode>();
    if (loop.loop_kind == ForKind::kVectorized) continue;
    const int64_t* extent = as_int(loop.extent);
    if (loop.loop_kind != ForKind::kSerial || !extent) return {};
    if (*extent <= copies) return unroll(s, {loops[at]});
    Schedule tried = s;
    const auto parts = split(tried, {loops[at], {kInfer, factor}, Tail::kPartition});
    if (parts && unroll(tried, {(*parts)[1]})) s = tried;
    return {};
  }
  return {};
}

}  // namespace fettle
