#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

// Shapes before flattening tell whether a surplus lane still lies in its buffer (in padded panels it does).
class GuardDropper : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      analyzer_.bind(loop->var, loop->min, loop->extent);
      if (register_depth_ > 0) inside_[loop->var.get()] = as_int(loop->extent) ? *as_int(loop->extent) : -1;
      return Mutator::rewrite(s);
    }
    if (const auto* alloc = s.as<AllocateNode>(); alloc && alloc->buffer->scope == kScopeRegister) {
      ++register_depth_;
      Stmt result = Mutator::rewrite(s);
      --register_depth_;
      return result;
    }
    if (const auto* choice = s.as<IfNode>(); choice && !choice->else_body) {
      const auto* target = choice->then_body.as<StoreNode>();
      if (target && target->buffer->scope == kScopeRegister) return if_needed(*choice, *target);
    }
    return Mutator::rewrite(s);
  }

 private:
  // Drops the conjuncts that only keep surplus lanes out: they speak of the loops of the tile, which the store's index
  // uses, and of loops around the buffer's life; without them nothing is out of bounds.
  Stmt if_needed(const IfNode& choice, const StoreNode& target) {
    std::vector<Expr> conjuncts;
    split_conjuncts(choice.condition, conjuncts);
    for (size_t i = conjuncts.size(); i-- > 0;) {
      const std::vector<Var> vars = collect_vars(conjuncts[i]);
      bool of_tile = false, of_other_loops = false;
      for (const Var& var : vars) {
        if (analyzer_.constant_value(var)) continue;  // a loop of one iteration
        bool in_index = false;
        for (const Expr& index : target.indices) in_index |= uses_var(index, var.get());
        of_tile |= in_index;
        of_other_loops |= !in_index && inside_.count(var.get());
      }
      if (!of_tile || of_other_loops) continue;
      Expr others;
      for (size_t j = 0; j < conjuncts.size(); ++j)
        if (j != i) others = logical_and(others, conjuncts[j]);
      auto scope = analyzer_.assume(others);
      if (in_bounds(target.buffer, target.indices) && reads_in_bounds(target.value, vars) && lanes_are_apart(target))
        conjuncts.erase(conjuncts.begin() + static_cast<ptrdiff_t>(i));
    }
    Expr condition;
    for (const Expr& conjunct : conjuncts) condition = logical_and(condition, conjunct);
    return is_true(condition) ? choice.then_body : if_then(condition, choice.then_body);
  }

  bool in_bounds(const Buffer& buffer, const std::vector<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d)
      if (!analyzer_.can_prove(le(Expr(0), indices[d])) || !analyzer_.can_prove(lt(indices[d], buffer->shape[d])))
        return false;
    return true;
  }

  // Of the reads whose place depends on `vars`; the others stay where they were.
  bool reads_in_bounds(const Expr& value, const std::vector<Var>& vars) {
    bool all = true;
    walk(value, [&](const Expr& e) {
      const auto* source = e.as<LoadNode>();
      if (!source) return all;
      bool moves = false;
      for (const Expr& index : source->indices)
        for (const Var& var : vars) moves |= uses_var(index, var.get());
      if (moves) all &= in_bounds(source->buffer, source->indices);
      return all;
    });
    return all;
  }

  // A store may run in surplus lanes only where these are no lanes of another iteration: tiles of 8 that are run in
  // lanes of 16 would add twice, and the first step of a sum at r // 9 is no lane of its own. Each loop of the tile has
  // places of its own then, as digits have.
  bool lanes_are_apart(const StoreNode& target) {
    std::unordered_set<const VarNode*> seen;
    for (const Expr& index : target.indices) {
      std::vector<std::pair<int64_t, int64_t>> digits;  // distance of neighbours, iterations
      for (const LinearTerm& term : analyzer_.linear(index).terms) {
        for (const Var& var : collect_vars(term.expr)) {
          const auto found = inside_.find(var.get());
          if (found == inside_.end()) continue;
          if (term.expr.get() != var.get() || found->second < 0 || !seen.insert(var.get()).second) return false;
          digits.push_back({std::abs(term.coeff), found->second});
        }
      }
      std::sort(digits.begin(), digits.end());
      int64_t reach = 0;
      for (const auto& [distance, iterations] : digits) {
        if (distance <= reach) return false;
        reach += distance * (iterations - 1);
      }
    }
    return true;
  }

  std::unordered_map<const VarNode*, int64_t>
      inside_;  // loops within the life of a register buffer → extents, -1: unknown
  int register_depth_ = 0;
  Analyzer analyzer_;
};

}  // namespace

Func drop_private_guards(const Func& func) { return GuardDropper().Mutator::rewrite(func); }

}  // namespace fettle
