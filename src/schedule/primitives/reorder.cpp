#include "schedule/primitives/reorder.h"

#include <algorithm>
#include <iterator>
#include <set>

#include "analysis/affine/exact.h"
#include "analysis/dependence.h"
#include "base/check.h"
#include "base/checks.h"
#include "base/small_vector.h"
#include "ir/compare.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/repetition.h"
#include "schedule/edit/edit_in_place.h"
#include "schedule/edit/nest.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// Whether `indices` are those of one value of `iter` alone: i, or i // c and i % c.
bool determines(const std::vector<Expr>& indices, const IterVar& iter) {
  if (is_one(iter.extent)) return true;
  const auto digit = [&](BinaryOp op) {
    const auto found = std::ranges::find_if(indices, [&](const Expr& index) {
      const auto* n = index.as<BinaryNode>();
      return n && n->op == op && n->a.get() == iter.var.get() && as_int(n->b);
    });
    return found == indices.end() ? 0 : *as_int(found->as<BinaryNode>()->b);
  };
  if (std::ranges::any_of(indices, [&](const Expr& index) { return index.get() == iter.var.get(); })) return true;
  const int64_t quotient = digit(BinaryOp::kFloorDiv);
  return quotient != 0 && quotient == digit(BinaryOp::kFloorMod);
}

// A scan each of whose points (values of the spatial iterators) goes its own way: what it writes, and what it reads of
// that, belongs to one point.
bool points_apart(const BlockNode& block) {
  for (const Region& write : block.writes) {
    std::vector<std::vector<Expr>> accesses = stores_of(block.body, write.buffer.get());
    for (const auto& load : loads_of(block.body, write.buffer.get())) accesses.push_back(load);
    std::vector<Expr> own;  // the indices in which all agree
    for (size_t d = 0; d < write.buffer->shape.size(); ++d)
      if (std::ranges::all_of(accesses, [&](const auto& a) { return structural_equal(a[d], accesses.front()[d]); }))
        own.push_back(accesses.front()[d]);
    for (const IterVar& iter : block.iters)
      if (iter.kind == IterKind::kSpatial && !determines(own, iter)) return false;
  }
  return !block.init;
}

// Which of some loops each of a block's iterators uses, read once.
class LoopUses {
 public:
  LoopUses(const BlockNode& block, std::span<const ForNode* const> loops) : block_(block), loops_(loops) {
    FETTLE_CHECK(loops.size() <= 64);
    for (const IterVar& iter : block.iters) {
      uint64_t used = 0;
      each_node<VarNode>(iter.binding, [&](const VarNode& var) {
        for (size_t i = 0; i < loops.size(); ++i)
          if (loops[i]->var.get() == &var) used |= uint64_t{1} << i;
      });
      used_.push_back(used);
    }
  }
  // All that iterators of this kind use, or all others.
  uint64_t of(IterKind kind, bool all_but = false) const {
    uint64_t all = 0;
    for (size_t k = 0; k < used_.size(); ++k)
      if ((block_.iters[k].kind == kind) != all_but) all |= used_[k];
    return all;
  }
  uint64_t of(size_t iter) const { return used_[iter]; }
  /// Those that take the block from step to step.
  uint64_t steps() const {
    if (is_true(block_.predicate)) return of(IterKind::kSpatial, /*all_but=*/true);
    uint64_t steps = 0;  // conditions may take steps, too
    for (const ForNode* loop : carried_loops(block_, {loops_.begin(), loops_.end()})) steps |= bit(loop);
    return steps;
  }
  /// Those from the first one on, in this order, that is one of `steps`; all where there are none.
  uint64_t from_first(uint64_t steps, std::span<const ForNode* const> order) const {
    uint64_t result = 0;
    bool begun = steps == 0;
    for (const ForNode* loop : order) {
      begun |= (steps & bit(loop)) != 0;
      if (begun) result |= bit(loop);
    }
    return result;
  }
  std::vector<const ForNode*> loops(uint64_t which) const {
    std::vector<const ForNode*> result;
    for (size_t i = 0; i < loops_.size(); ++i)
      if (which >> i & 1) result.push_back(loops_[i]);
    return result;
  }
  uint64_t all() const { return loops_.size() == 64 ? ~uint64_t{0} : (uint64_t{1} << loops_.size()) - 1; }

 private:
  uint64_t bit(const ForNode* loop) const { return uint64_t{1} << (std::ranges::find(loops_, loop) - loops_.begin()); }

  const BlockNode& block_;
  std::span<const ForNode* const> loops_;
  SmallVector<uint64_t, 8> used_;
};

// Loops that a reduction's iterators share with spatial ones (fused ones, say), with all that these use: what is
// updated first, beside the init, follows from their order. Empty where the two use loops of their own.
std::vector<const ForNode*> entangled(const BlockNode& block, const LoopUses& uses) {
  uint64_t reached = uses.of(IterKind::kReduce);
  bool shared = false;
  for (uint64_t before = ~reached; before != reached;) {
    before = reached;
    for (size_t k = 0; k < block.iters.size(); ++k) {
      if (block.iters[k].kind != IterKind::kSpatial || !(uses.of(k) & reached)) continue;
      shared = true;
      reached |= uses.of(k);
    }
  }
  if (!shared) return {};
  return uses.loops(reached);
}

// Of a reduction that runs several times for a point (below a loop that it does not use), each time anew: the order of
// its steps and of these loops.
std::vector<const ForNode*> steps_and_repeats(const LoopUses& uses) {
  return uses.loops(uses.all() & ~uses.of(IterKind::kSpatial));
}

// Whether those loops come one after the other in `after`, too.
bool in_same_order(const std::vector<const ForNode*>& loops, std::span<const ForNode* const> after) {
  size_t next = 0;
  for (const ForNode* loop : after) {
    if (next == loops.size()) break;
    if (loop == loops[next])
      ++next;
    else if (std::ranges::find(loops, loop) != loops.end())
      return false;
  }
  return true;
}

// Whether the loops that run inside of a reduction's steps change, and the block runs again below them then, or did: it
// begins anew in its first step alone, so that all later ones would be added as often as they run.
//   for i in 5: for x in 2: for k: B(i + x, k)   →   for k: for i in 5: for x in 2: B(i + x, k)
bool repeats_in_steps(const Func& func, const BlockNode& block, const Stmt& body, const LoopUses& uses,
                      std::span<const ForNode* const> before, std::span<const ForNode* const> after) {
  const uint64_t steps = uses.steps();
  const uint64_t was = uses.from_first(steps, before), now = uses.from_first(steps, after);
  const bool grows = (now & ~was) != 0, shrinks = (was & ~now) != 0;
  if (!grows && !shrinks) return false;
  const auto again = [&](std::vector<const ForNode*> loops) {
    const std::vector<const ForNode*> below = loops_between(body, &block);
    loops.insert(loops.end(), below.begin(), below.end());
    return !runs_once(func, block, loops);
  };
  if (!(grows && again(uses.loops(now))) && !(shrinks && again(uses.loops(was)))) return false;
  return carried_loops(block, loops_around(func, before.front())).empty();  // else all are inside of a step
}

// The variables that an iterator's binding depends on: those of loops, and of what their ranges depend on.
//   for c0: for c1 in c0 * 2 +: 2: block S(v = c1)   →   v depends on c1 and c0
std::set<const VarNode*> variables_of(const Expr& binding, std::span<const ForNode* const> around) {
  std::set<const VarNode*> found;
  const auto add = [&](const Expr& e) { each_node<VarNode>(e, [&](const VarNode& var) { found.insert(&var); }); };
  add(binding);
  for (size_t i = around.size(); i-- > 0;)
    if (found.contains(around[i]->var.get())) {
      add(around[i]->min);
      add(around[i]->extent);
    }
  return found;
}

// A block whose instances must not change their order as the loops go from `before` to `after`, or null.
const BlockNode* find_ordered(const Func& func, const Stmt& body, std::span<const ForNode* const> before,
                              std::span<const ForNode* const> after) {
  // Of these loops, in their order, those that an iterator of this kind depends on.
  const auto in_step = [&](const BlockNode& block, IterKind kind, std::span<const ForNode* const> loops) {
    std::vector<const ForNode*> around(before.begin(), before.end());
    const std::vector<const ForNode*> below = loops_between(body, &block);
    around.insert(around.end(), below.begin(), below.end());
    std::set<const VarNode*> used;
    for (const IterVar& iter : block.iters)
      if (iter.kind == kind) used.merge(variables_of(iter.binding, around));
    std::vector<const ForNode*> steps;
    std::ranges::copy_if(loops, std::back_inserter(steps),
                         [&](const ForNode* loop) { return used.contains(loop->var.get()); });
    return steps;
  };
  const auto is_ordered = [&](const BlockNode& block) {
    const std::vector<const ForNode*> loops(before.begin(), before.end());
    if (block.init) {
      const LoopUses uses(block, before);
      if (!in_same_order(entangled(block, uses), after)) return true;
      if (!in_same_order(steps_and_repeats(uses), after) && !carried_loops(block, loops).empty() &&
          !runs_once(func, block, loops))
        return true;
      if (repeats_in_steps(func, block, body, uses, before, after)) return true;
    }
    if (!in_step(block, IterKind::kOpaque, before).empty()) return true;
    const std::vector<const ForNode*> steps = in_step(block, IterKind::kScan, before);
    return !steps.empty() && (!points_apart(block) || steps != in_step(block, IterKind::kScan, after));
  };
  return find_node<BlockNode>(body, is_ordered);
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
      return refused(ErrorCode::E208, s.func(), order[i],
                     "the bounds of loop {} depend on a loop that would be inside it", order[i]->var->name);
  }
  size_t first = 0, end = order.size();  // what changes is in between
  while (order[first] == chain[first]) ++first;
  while (order[end - 1] == chain[end - 1]) --end;
  const std::span<const ForNode* const> moved(order.data() + first, end - first);
  const std::span<const ForNode* const> were(chain.data() + first, end - first);
  if (were.size() > 64)
    return refused(ErrorCode::E207, s.func(), chain.front(), "more than 64 loops change their order");
  const std::vector<const BlockNode*> blocks = blocks_under(chain.back()->body);
  // What blocks that keep an order touch may show that this one will do, too.
  const auto exactly = [&] {
    return std::ranges::any_of(blocks, [](const BlockNode* block) { return keeps_order(*block); }) &&
           check_interchange(s.func(), Stmt(Ref<const ForNode>(chain[first])), moved);
  };
  if (const BlockNode* block = find_ordered(s.func(), chain[end - 1]->body, were, moved);
      block && checks("reorder.ordered")) {
    if (!exactly())
      return refused(ErrorCode::E210, s.func(), block, "the instances of block {} are ordered", block->name);
  } else if (blocks.size() > 1) {
    // Several blocks under the loops that move must not need each other across iterations.
    if (auto apart = check_iterations_apart(s.func(), *chain[end - 1]); !apart && !exactly())
      return refused(ErrorCode::E210, s.func(), chain[end - 1], "{}", apart.error().message);
  }

  Stmt nest = end < chain.size() ? Stmt(Ref<const ForNode>(chain[end])) : chain.back()->body;
  for (size_t i = end; i-- > 0;) nest = with(*order[i], [&](ForNode& f) { f.body = nest; });
  return Applied{replace_last(s, chain.front(), nest), {}};
}

}  // namespace

extern constinit const PrimitiveDef reorder_def = define_primitive<ReorderArgs, apply_reorder>("reorder", 1);

Result<> reorder(Schedule& s, const ReorderArgs& args) { return run<void>(s, reorder_def, args); }

}  // namespace fettle
