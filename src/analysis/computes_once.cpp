#include "analysis/computes_once.h"

#include "ir/visit.h"

namespace fettle {

bool computes_once(const Func& scheduled) {
  bool once = true;
  const auto has_bounds = [&](const Expr& e) {
    walk(e, [&](const Expr& part) {
      const auto* binary = part.as<BinaryNode>();
      if (binary && (binary->op == BinaryOp::kMin || binary->op == BinaryOp::kMax)) once = false;
      return once;
    });
  };
  walk(scheduled->body, [&](const Stmt& s) {
    if (const auto* block = s.as<BlockNode>())
      for (const IterVar& iter : block->iters) has_bounds(iter.binding);
    return once;
  });
  return once;
}

}  // namespace fettle
