#pragma once
// What primitives are written with: edit.h, questions to trees, and the following.

#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "ir/query.h"
#include "schedule/edit/edit.h"

namespace fettle {

namespace detail {
inline std::vector<LoopRef> results_of(const Schedule& s, int step, std::vector<LoopRef>) { return s.loops_of(step); }
inline std::vector<BlockRef> results_of(const Schedule& s, int step, std::vector<BlockRef>) {
  return s.blocks_of(step);
}
inline std::vector<ValueRef> results_of(const Schedule& s, int step, std::vector<ValueRef>) {
  return s.values_of(step);
}
template <class Ref>
Ref results_of(const Schedule& s, int step, Ref) {
  return results_of(s, step, std::vector<Ref>()).front();
}
}  // namespace detail

/// Applies one step to the schedule. Returns its results as Out: a LoopRef, BlockRef or ValueRef for the first one, a
/// vector of these for all, or void.
template <class Out, class Args>
Result<Out> run(Schedule& s, const PrimitiveDef& def, const Args& args) {
  FETTLE_TRY([[maybe_unused]] const int number, s.step(def, args));
  if constexpr (!std::is_void_v<Out>) return detail::results_of(s, number, Out());
  return Result<Out>();
}

/// As fail_at, with a message to be formatted: refused(ErrorCode::E212, func, block, "block {} has no init", name).
template <class... Args>
tl::unexpected<Diagnostic> refused(ErrorCode code, const Func& func, const StmtNode* place,
                                   fmt::format_string<Args...> message, Args&&... args) {
  return fail_at(code, func, place, fmt::format(message, std::forward<Args>(args)...), {});
}

/// An analyzer that knows the integer parameters and these loops.
Analyzer analyzer_over(const Func& func, const std::vector<const ForNode*>& loops);
/// The loop over that variable, or null.
const ForNode* loop_of(std::span<const ForNode* const> loops, const ExprNode* var);
/// Whether `e` uses a variable of the loops.
bool uses_any(const Expr& e, std::span<const ForNode* const> loops);
/// Whether an iterator of that kind is bound to something that uses the loop's variable.
bool moves_with(const BlockNode& block, IterKind kind, const ForNode& loop);

}  // namespace fettle
