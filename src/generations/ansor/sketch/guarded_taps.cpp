#include "generations/ansor/sketch/guarded_taps.h"

#include <algorithm>

#include "analysis/sites.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

// Without likely(…) around it.
Expr plain_condition(const Expr& condition) {
  const auto* called = condition.as<CallNode>();
  return called && called->name == "likely" && called->args.size() == 1 ? called->args.front() : condition;
}

}  // namespace

std::set<const VarNode*> guarded_taps(const BlockNode& block, const std::set<const VarNode*>& tile,
                                      const std::set<const VarNode*>& reduction) {
  const VarMap bindings = binding_map(block);
  std::set<const VarNode*> taps;
  const auto look_at = [&](const Expr& condition) {
    for (const Expr& part : conjuncts(plain_condition(condition))) {
      const Expr placed = substitute(part, bindings);
      const auto used = [&](const VarNode* var) { return uses_var(placed, var); };
      if (std::ranges::any_of(tile, used)) std::ranges::copy_if(reduction, std::inserter(taps, taps.end()), used);
    }
  };
  walk(
      block.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        if (const auto* select = e.as<SelectNode>()) look_at(select->condition);
        return true;
      });
  return taps;
}

}  // namespace fettle
