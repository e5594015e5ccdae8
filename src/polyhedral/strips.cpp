#include "polyhedral/strips.h"

#include <algorithm>

#include <fmt/format.h>

#include "analysis/affine/nest.h"
#include "ir/annotations.h"
#include "ir/visit.h"
#include "polyhedral/placement.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

constexpr int64_t kMostRows = 8;

int64_t rows_of_strip(int64_t extent) {
  for (int64_t rows = kMostRows; rows > 1; --rows)
    if (extent % rows == 0) return rows;
  return 1;
}

// (i, j, …) → (i // rows, position, j, …, i), positions among the statements of each loop's body.
IndexMap map_of(const NestStatement& statement, int64_t rows) {
  IndexMap map;
  for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
  map.outputs.push_back(floordiv(Expr(map.inputs.front()), Expr(rows)));
  for (auto at = std::ranges::find(statement.when, "l0") + 1; at != statement.when.end(); ++at)
    map.outputs.push_back(value_at(*at, map.inputs));
  map.outputs.emplace_back(map.inputs.front());
  return map;
}

// The strip's rows are the block's innermost loop. The loop around it becomes lanes outside of which they stand.
Result<> write_strip_out(Schedule& s, const std::string& block, int64_t lanes) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  if (loops.size() < 3) return {};
  const LoopRef rows = loops.back(), along = loops[loops.size() - 2];
  Schedule tried = s;
  if (lanes > 1)
    if (const auto parts = split(tried, {along, {kInfer, lanes}, Tail::kMask}))
      if (reorder(tried, {{(*parts)[0], rows, (*parts)[1]}}) && vectorize(tried, {(*parts)[1]})) s = tried;
  return unroll(s, {rows});
}

}  // namespace

Result<> strip_shared_loop(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes) {
  FETTLE_TRY(const auto place, place_of(s.func(), blocks));
  FETTLE_TRY(const AffineNest nest, AffineNest::of(s.func(), place.first, place.second));
  const auto& statements = nest.statements();
  const auto refuse = [](const char* why) { return fail(ErrorCode::E211, why); };
  if (statements.size() < 2) return refuse("one block shares no loop");
  for (const NestStatement& statement : statements) {
    if (statement.loops.size() < 2 || statement.loops.front() != statements.front().loops.front())
      return refuse("the blocks share no loop, or have none in it");
    const Var& shared = statement.loops.front()->var;
    const auto waits = [&](const IterVar& iter) {
      return iter.kind == IterKind::kScan && uses_var(iter.binding, shared.get());
    };
    if (std::ranges::any_of(statement.block->iters, waits)) return refuse("the shared loop runs in order");
    if (!std::ranges::all_of(statement.loops, [](const ForNode* loop) { return as_int(loop->extent) != nullptr; }))
      return refuse("the blocks' loops have no constant extents");
  }
  const int64_t rows = rows_of_strip(*as_int(statements.front().loops.front()->extent));
  if (rows == 1) return refuse("nothing divides the loop's extent");
  Schedule made = s;
  RescheduleArgs args;
  for (const NestStatement& statement : statements) {
    FETTLE_TRY(args.blocks.emplace_back(), get_block(made, {statement.block->name}));
    args.maps.push_back(map_of(statement, rows));
  }
  FETTLE_TRY_VOID(reschedule(made, args));
  // Lowering keeps sums along the strip in registers, and LLVM makes lanes of them.
  FETTLE_TRY_VOID(annotate(made, {args.blocks.front(), kInOrderKey, int64_t{1}}));
  for (const std::string& block : blocks) FETTLE_TRY_VOID(write_strip_out(made, block, lanes));
  s = made;
  return {};
}

}  // namespace fettle
