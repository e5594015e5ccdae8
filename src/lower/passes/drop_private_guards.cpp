#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "arith/analyzer.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {
namespace {

// A read of a register buffer, with what holds there.
struct Read {
  std::vector<Expr> indices;
  SmallVector<const ForNode*, 16> loops;  // outermost first
  std::vector<Expr> conditions;           // their conjuncts
};

class ReadFinder : public AccessVisitor {
 public:
  std::unordered_map<const BufferNode*, std::vector<Read>> reads;
  std::unordered_set<const BufferNode*> handed_out;  // by address
  using Visitor::visit;
  void visit(const Stmt& s) override {
    if (!s) return;
    const auto* choice = s.as<IfNode>();
    if (!choice) return AccessVisitor::visit(s);
    visit(choice->condition);
    const size_t before = conditions_.size();
    split_conjuncts(choice->condition, conditions_);
    visit(choice->then_body);
    conditions_.resize(before);
    visit(choice->else_body);
  }

 private:
  void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) override {
    if (kind == AccessKind::kRead && buffer->scope == kScopeRegister)
      reads[buffer.get()].push_back({indices, loops_, conditions_});
    if (kind == AccessKind::kAddress) handed_out.insert(buffer.get());
  }
  std::vector<Expr> conditions_;
};

// Shapes before flattening tell whether a surplus lane still lies in its buffer (in padded panels it does).
class GuardDropper : public StmtMutator {
 public:
  explicit GuardDropper(const ReadFinder& finder) : finder_(finder) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (!s) return s;
    if (const auto* loop = s.as<ForNode>()) {
      analyzer_.bind(loop->var, loop->min, loop->extent);
      if (register_depth_ > 0) inside_[loop->var.get()] = as_int(loop->extent) ? *as_int(loop->extent) : -1;
      loops_[loop->var.get()] = loop;
      return Mutator::rewrite(s);
    }
    if (const auto* alloc = s.as<AllocateNode>(); alloc && alloc->buffer->scope == kScopeRegister) {
      ++register_depth_;
      Stmt result = Mutator::rewrite(s);
      --register_depth_;
      return result;
    }
    const auto* choice = s.as<IfNode>();
    if (!choice) return Mutator::rewrite(s);
    const auto* target = choice->else_body ? nullptr : choice->then_body.as<StoreNode>();
    if (target && target->buffer->scope == kScopeRegister) return if_needed(*choice, *target);
    around_.push_back(choice->condition);
    Stmt result = Mutator::rewrite(s);
    around_.pop_back();
    return result;
  }

 private:
  // Drops the conjuncts that only keep surplus lanes out: they speak of the loops of the tile, which the store's index
  // uses, and of loops around the buffer's life; without them nothing is out of bounds, and what is stored only without
  // them is never read. What speaks of loops around alone keeps whole tiles out: nothing of these is worth computing.
  Stmt if_needed(const IfNode& choice, const StoreNode& target) {
    std::vector<Expr> parts = conjuncts(choice.condition);
    for (size_t i = parts.size(); i-- > 0;) {
      const std::vector<Var> vars = collect_vars(parts[i]);
      bool of_tile = false, of_other_loops = false;
      for (const Var& var : vars) {
        if (analyzer_.constant_value(var)) continue;  // a loop of one iteration
        bool in_index = false;
        for (const Expr& index : target.indices) in_index |= uses_var(index, var.get());
        of_tile |= in_index && inside_.contains(var.get());
        of_other_loops |= !in_index && inside_.contains(var.get());
      }
      if (!of_tile || of_other_loops) continue;
      Expr others;
      for (size_t j = 0; j < parts.size(); ++j)
        if (j != i) others = logical_and(others, parts[j]);
      auto scope = analyzer_.assume(others);
      if (in_bounds(target.buffer, target.indices) &&
          reads_in_bounds(target.value, movers(parts[i], others, target.value, vars)) && divides_safely(target.value) &&
          lanes_are_apart(target) && every_read_has(parts[i], target))
        parts.erase(parts.begin() + static_cast<ptrdiff_t>(i));
    }
    return guarded(parts, choice.then_body);
  }

  // The variables that tell the surplus lanes' reads from others'. Where the first lane of a tile is never surplus,
  // what it reads is read in any case, and loops around the tile are the same for all of its lanes:
  //   if f // 78 * 8 + lane < 20: R[lane] += X[f % 78] * W[f // 78, lane]     f < 234
  // unless something else than the conjunct decides what the first lane does.
  std::vector<Var> movers(const Expr& conjunct, const Expr& others, const Expr& value, const std::vector<Var>& vars) {
    std::vector<Var> of_tile;
    VarMap first;
    for (const Var& var : vars) {
      if (!inside_.contains(var.get())) continue;
      if (decides(var, others, value)) return vars;
      of_tile.push_back(var);
      first[var.get()] = loops_.at(var.get())->min;
    }
    return analyzer_.can_prove(substitute(conjunct, first)) ? of_tile : vars;
  }

  // Whether something is done, or read in `value`, because of this variable.
  bool decides(const Var& var, const Expr& others, const Expr& value) const {
    const auto uses = [&](const Expr& e) { return e && uses_var(e, var.get()); };
    bool found = uses(others) || std::ranges::any_of(around_, uses);
    for (const auto& [other, loop] : loops_) found |= uses(loop->min) || uses(loop->extent);
    return found || contains<SelectNode>(value, [&](const SelectNode& choice) { return uses(choice.condition); });
  }

  bool in_bounds(const Buffer& buffer, const std::vector<Expr>& indices) {
    for (size_t d = 0; d < indices.size(); ++d)
      if (!analyzer_.can_prove(le(Expr(0), indices[d])) || !analyzer_.can_prove(lt(indices[d], buffer->shape[d])))
        return false;
    return true;
  }

  // Of the reads whose place depends on `vars`; the others stay where they were.
  bool reads_in_bounds(const Expr& value, const std::vector<Var>& vars) {
    return !contains<LoadNode>(value, [&](const LoadNode& source) {
      bool moves = false;
      for (const Expr& index : source.indices)
        for (const Var& var : vars) moves |= uses_var(index, var.get());
      return moves && !in_bounds(source.buffer, source.indices);
    });
  }

  // Of integers by what is not zero, whatever surplus lanes hold.
  static bool divides_safely(const Expr& value) {
    return !contains<BinaryNode>(value, [](const BinaryNode& n) {
      const bool divides = n.op == BinaryOp::kDiv || n.op == BinaryOp::kFloorDiv || n.op == BinaryOp::kFloorMod;
      return divides && !n.a.dtype().is_float() && !(as_int(n.b) && *as_int(n.b) > 0);
    });
  }

  // A lane that is surplus to the store is so to all that read the buffer: the condition, said of the loops around a
  // read, holds there. Else a lane keeps what it held before:
  //   R[i] = 0; if i < 5: R[i] = A[i]; B[i] = R[i]   stays as it is
  bool every_read_has(const Expr& conjunct, const StoreNode& target) {
    if (finder_.handed_out.contains(target.buffer.get())) return false;
    const auto found = finder_.reads.find(target.buffer.get());
    if (found == finder_.reads.end()) return true;
    return std::ranges::all_of(found->second, [&](const Read& read) {
      Analyzer analyzer;
      for (const ForNode* loop : read.loops) analyzer.bind(loop->var, loop->min, loop->extent);
      const Expr there = said_of(conjunct, target.indices, read, analyzer);
      if (!there) return false;
      for (const Expr& condition : read.conditions)
        if (structural_equal(condition, there)) return true;
      for (const Expr& condition : read.conditions) analyzer.add_assumption(condition);
      return analyzer.can_prove(there);
    });
  }

  // The conjunct at the element that is read: loops of the tile give way to those which walk the element at the read.
  //   stored at [4*i + j] if 8*o + 4*i + j < n, read at [4*u + v]  →  8*o + 4*u + v < n
  // Null where the loops of the two are not each other's.
  Expr said_of(const Expr& conjunct, const std::vector<Expr>& stored, const Read& read, Analyzer& there) {
    VarMap walked;
    for (size_t d = 0; d < stored.size(); ++d) {
      const LinearForm to = analyzer_.linear(stored[d]);
      LinearForm from = linear_form(read.indices[d]);
      const LinearTerm* last = nullptr;  // walked by no loop of the same steps
      for (const LinearTerm& term : to.terms) {
        const auto* var = term.expr.as<VarNode>();
        if (!var || !inside_.contains(var)) continue;  // the same for both
        for (const ForNode* loop : read.loops)
          if (from.coeff_of(loop->var) == term.coeff && same_range(*loop, *loops_.at(var))) walked[var] = loop->var;
        if (!walked.contains(var)) last = &term;
      }
      if (!last) continue;
      from.add(to, -1);
      from.add_term(last->expr, last->coeff);
      bool divides = from.constant % last->coeff == 0;
      for (const LinearTerm& term : from.terms) divides &= term.coeff % last->coeff == 0;
      if (!divides) continue;
      from.constant /= last->coeff;
      for (LinearTerm& term : from.terms) term.coeff /= last->coeff;
      walked[last->expr.as<VarNode>()] = substitute(to_expr(from), walked);
    }
    for (size_t d = 0; d < stored.size(); ++d)
      if (!is_zero(there.simplify(substitute(analyzer_.simplify(stored[d]), walked) - read.indices[d]))) return nullptr;
    for (const Var& var : collect_vars(conjunct))
      if (const auto value = analyzer_.constant_value(var)) walked[var.get()] = Expr(*value);
    return substitute(conjunct, walked);
  }
  static bool same_range(const ForNode& a, const ForNode& b) {
    const int64_t *extent_a = as_int(a.extent), *extent_b = as_int(b.extent);
    return structural_equal(a.min, b.min) &&
           (structural_equal(a.extent, b.extent) || (extent_a && extent_b && *extent_a <= *extent_b));
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
  std::unordered_map<const VarNode*, const ForNode*> loops_;
  std::vector<Expr> around_;  // conditions
  int register_depth_ = 0;
  Analyzer analyzer_;
  const ReadFinder& finder_;
};

}  // namespace

Func drop_private_guards(const Func& func) {
  if (!has_guards(func->body)) return func;
  ReadFinder finder;
  finder.visit(func->body);
  return GuardDropper(finder).Mutator::rewrite(func);
}

}  // namespace fettle
