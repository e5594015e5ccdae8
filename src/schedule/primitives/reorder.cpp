#include "schedule/primitives/reorder.h"

#include <algorithm>

#include "analysis/dependence.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/nest.h"

namespace fettle {
namespace {

bool uses_any(const Expr& e, std::span<const ForNode* const> loops) {
  return std::ranges::any_of(loops, [&](const ForNode* loop) { return uses_var(e, loop->var.get()); });
}

// A block whose instances must not change their order along the loops that move, or null.
const BlockNode* find_ordered(const Stmt& body, std::span<const ForNode* const> moved) {
  const BlockNode* found = nullptr;
  walk(body, [&](const Stmt& x) {
    if (const auto* block = x.as<BlockNode>())
      for (const IterVar& iter : block->iters)
        if ((iter.kind == IterKind::kScan || iter.kind == IterKind::kOpaque) && uses_any(iter.binding, moved))
          found = block;
    return !found;
  });
  return found;
}

Result<Applied> apply_reorder(const Schedule& s, const ReorderArgs& args) {
  FETTLE_TRY(const std::vector<const ForNode*> chain, loop_chain(s, args.loops, /*adjacent=*/false));
  std::vector<const ForNode*> wanted;
  for (const LoopRef& ref : args.loops) {
    FETTLE_TRY(const Var var, s.loop_var(ref));
    wanted.push_back(*std::ranges::find_if(chain, [&](const ForNode* loop) { return loop->var == var; }));
  }
  std::vector<const ForNode*> order = chain;
  size_t next = 0;
  for (const ForNode*& loop : order)
    if (std::ranges::find(wanted, loop) != wanted.end()) loop = wanted[next++];
  if (order == chain) return Applied{s.func(), {}};

  for (size_t i = 0; i < order.size(); ++i) {
    const std::span<const ForNode* const> inside(order.data() + i, order.size() - i);
    if (uses_any(order[i]->min, inside) || uses_any(order[i]->extent, inside))
      return fail_at(ErrorCode::E208, s.func(), order[i],
                     "the bounds of loop " + order[i]->var->name + " depend on a loop that would be inside it", {});
  }
  size_t first = 0, end = order.size();  // what changes is in between
  while (order[first] == chain[first]) ++first;
  while (order[end - 1] == chain[end - 1]) --end;
  const std::span<const ForNode* const> moved(order.data() + first, end - first);
  if (const BlockNode* block = find_ordered(chain.back()->body, moved))
    return fail_at(ErrorCode::E210, s.func(), block, "the instances of block " + block->name + " are ordered", {});
  // Several blocks under the loops that move must not need each other across iterations.
  if (blocks_under(chain.back()->body).size() > 1)
    if (auto apart = check_iterations_apart(s.func(), *chain[end - 1]); !apart)
      return fail_at(ErrorCode::E210, s.func(), chain[end - 1], apart.error().message, {});

  Stmt nest = end < chain.size() ? Stmt(Ref<const ForNode>(chain[end])) : chain.back()->body;
  for (size_t i = end; i-- > 0;) nest = with(*order[i], [&](ForNode& f) { f.body = nest; });
  return Applied{replace_in(s.func(), chain.front(), nest), {}};
}

}  // namespace

constinit const PrimitiveDef reorder_def = define_primitive<ReorderArgs, apply_reorder>("reorder", 1);

Result<> reorder(Schedule& s, const ReorderArgs& args) {
  FETTLE_TRY_VOID(s.step(reorder_def, args));
  return {};
}

}  // namespace fettle
