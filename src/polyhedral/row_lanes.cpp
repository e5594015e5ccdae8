#include "polyhedral/row_lanes.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives.h"

namespace fettle {
namespace {

// Whether a block in the loop runs in order along another loop in it.
bool has_rows(const ForNode& loop) {
  return std::ranges::any_of(blocks_under(loop.body), [&](const BlockNode* block) {
    return std::ranges::any_of(block->iters, [&](const IterVar& iter) {
      const std::vector<Var> vars = collect_vars(iter.binding);
      return iter.kind == IterKind::kScan && std::ranges::any_of(vars, [&](const Var& var) {
               return contains<ForNode>(loop.body, [&](const ForNode& inner) { return inner.var == var; });
             });
    });
  });
}

}  // namespace

Result<> make_rows_lanes(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes, bool shared,
                         std::vector<std::string>& made) {
  Schedule found = s;
  FETTLE_TRY(const BlockRef first, get_block(found, {blocks.front()}));
  FETTLE_TRY(const auto loops, get_loops(found, {first}));
  for (const LoopRef& ref : loops) {
    FETTLE_TRY(const Stmt stmt, found.loop(ref));
    const auto& loop = *stmt.as<ForNode>();
    std::vector<std::string> inside;
    for (const BlockNode* block : blocks_under(stmt)) inside.push_back(block->name);
    const auto is_inside = [&](const std::string& name) { return std::ranges::find(inside, name) != inside.end(); };
    if (!std::ranges::all_of(blocks, is_inside) || !has_rows(loop)) break;
    const int64_t* extent = as_int(loop.extent);
    if (lanes < 2 || !extent || *extent < lanes || loop.loop_kind != ForKind::kSerial) continue;
    Schedule tried = found;
    const auto parts = split(tried, {ref, {kInfer, lanes}, Tail::kMask});
    if (!parts || !vectorize(tried, {parts->back()})) continue;
    s = tried;
    if (shared && parallel(tried, {parts->front()})) s = tried;
    made = inside;
    return {};
  }
  return fail(ErrorCode::E211, "the blocks share no loop of independent iterations around a recurrence");
}

}  // namespace fettle
