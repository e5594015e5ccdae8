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

// Where in its iteration of the shared loop a statement runs that has no other loop: before what all others have, or
// behind.
bool is_first(const std::vector<NestStatement>& statements, size_t number) {
  return std::ranges::none_of(statements.begin(), statements.begin() + static_cast<std::ptrdiff_t>(number),
                              [](const NestStatement& before) { return before.loops.size() > 1; });
}

// Of a shared loop that runs in order: what its iterations of a strip need of earlier strips is done for all of them
// at each iteration of the inner loop. Then it is as if that one were the outer loop.
//   F(i)     → (i // rows, 0, -1, position, i)            what comes before the inner loops
//   S(i, j)  → (i // rows, whether j is in the strip, j, position, i)
//   L(i)     → (i // rows, 1, i, position, i)             what comes behind them: i is ready
IndexMap map_in_order(const std::vector<NestStatement>& statements, size_t number, int64_t rows) {
  const NestStatement& statement = statements[number];
  const bool has_inner = statement.loops.size() > 1, first = !has_inner && is_first(statements, number);
  IndexMap map;
  for (const ForNode* loop : statement.loops) map.inputs.push_back(make_var(loop->var->name));
  const Expr row = map.inputs.front(), strip = floordiv(row, Expr(rows));
  const Expr along = has_inner ? Expr(map.inputs[1]) : first ? Expr(-1) : row;
  const Expr inside =
      has_inner ? max(Expr(0), min(Expr(1), along - strip * Expr(rows) + Expr(1))) : Expr(first ? 0 : 1);
  const auto position = static_cast<int64_t>(number + (has_inner ? statements.size() : 0));
  map.outputs = {strip, inside, along, Expr(position), row};
  return map;
}

// The strip's rows are the block's innermost loop. The loop around it becomes lanes outside of which they stand.
Result<> write_strip_out(Schedule& s, const std::string& block, int64_t lanes) {
  FETTLE_TRY(const BlockRef ref, get_block(s, {block}));
  FETTLE_TRY(const auto loops, get_loops(s, {ref}));
  if (loops.size() < 3) return {};
  FETTLE_TRY(const Stmt innermost, s.loop(loops.back()));
  if (!as_int(innermost.as<ForNode>()->extent)) return {};  // the last strip's, or within a strip
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
  bool in_order = false, has_triangles = false, has_inner = false;
  for (const NestStatement& statement : statements) {
    if (statement.loops.empty() || statement.loops.front() != statements.front().loops.front())
      return refuse("the blocks share no loop");
    const Var& shared = statement.loops.front()->var;
    in_order = in_order || std::ranges::any_of(statement.block->iters, [&](const IterVar& iter) {
                 return iter.kind == IterKind::kScan && uses_var(iter.binding, shared.get());
               });
    has_triangles = has_triangles || std::ranges::any_of(statement.loops, [](const ForNode* loop) {
                      return as_int(loop->extent) == nullptr;
                    });
    has_inner = has_inner || statement.loops.size() > 1;
  }
  const bool all_have_inner =
      std::ranges::all_of(statements, [](const NestStatement& statement) { return statement.loops.size() > 1; });
  if (!has_inner || (!in_order && !all_have_inner)) return refuse("the blocks have no loop in the shared one");
  if (has_triangles && !in_order) return refuse("the blocks' loops have no constant extents");
  const int64_t* extent = as_int(statements.front().loops.front()->extent);
  if (!extent) return refuse("the shared loop has no constant extent");
  const int64_t rows = rows_of_strip(*extent);
  if (rows == 1) return refuse("nothing divides the loop's extent");
  Schedule made = s;
  RescheduleArgs args;
  for (size_t k = 0; k < statements.size(); ++k) {
    FETTLE_TRY(args.blocks.emplace_back(), get_block(made, {statements[k].block->name}));
    args.maps.push_back(in_order ? map_in_order(statements, k, rows) : map_of(statements[k], rows));
  }
  std::vector<std::string> parts;
  FETTLE_TRY_VOID(reschedule_with_copies(made, args, blocks, parts));
  // Lowering keeps sums along the strip in registers, and LLVM makes lanes of them.
  FETTLE_TRY_VOID(annotate(made, {args.blocks.front(), kInOrderKey, int64_t{1}}));
  for (const std::string& part : parts) FETTLE_TRY_VOID(write_strip_out(made, part, lanes));
  s = made;
  return {};
}

}  // namespace fettle
