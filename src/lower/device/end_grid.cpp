#include <algorithm>

#include "arith/linear.h"
#include "ir/visit.h"
#include "lower/device/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

/// Blocks for which `guard` holds at most: b - a where it is (v + a < b); null where it does not say.
Expr blocks_within(const Expr& guard, const VarNode* block) {
  if (const auto* call = guard.as<CallNode>(); call && call->name == "likely" && call->args.size() == 1)
    return blocks_within(call->args[0], block);
  const auto* compare = guard.as<BinaryNode>();
  if (!compare) return {};
  if (compare->op == BinaryOp::kAnd) {
    const Expr a = blocks_within(compare->a, block);
    return a ? a : blocks_within(compare->b, block);
  }
  if (compare->op != BinaryOp::kLt || compare->a.dtype() != kI64) return {};
  const auto split = split_linear(compare->b - compare->a, block);
  const int64_t* coeff = split ? as_int(split->coeff) : nullptr;
  return coeff && *coeff == -1 && !reads_memory(split->rest) ? split->rest : Expr();
}

}  // namespace

void end_grid(const Func& kernel, std::array<Expr, 3>& grid) {
  std::vector<const ForNode*> loops;
  Stmt body = kernel->body;
  while (const auto* loop = body.as<ForNode>()) {
    if (!is_block_axis(loop->thread_axis)) break;
    loops.push_back(loop);
    const Stmt inside = loop->body;
    body = inside;
  }
  const auto* guard = body.as<IfNode>();
  if (!guard || guard->else_body) return;
  for (const ForNode* loop : loops) {
    const Expr blocks = blocks_within(guard->condition, loop->var.get());
    if (!blocks) continue;
    const auto uses = [&](const ForNode* other) { return uses_var(blocks, other->var.get()); };
    if (std::ranges::any_of(loops, uses)) continue;
    Expr& extent = grid[static_cast<size_t>(axis_dimension(loop->thread_axis))];
    extent = min(extent, blocks);
  }
}

}  // namespace fettle
