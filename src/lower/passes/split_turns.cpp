#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"
#include "schedule/dataflow/dataflow.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

// Where a guard that holds in early turns stops to hold: for all that a turn does, and for any of it.
struct Ends {
  Expr guard;
  Expr all, any;
};

bool reads_memory_or_lanes(const Expr& guard, const std::vector<const VarNode*>& lanes) {
  return contains<LoadNode>(guard, [](const LoadNode&) { return true; }) ||
         std::ranges::any_of(lanes, [&](const VarNode* lane) { return uses_var(guard, lane); });
}

// Guards below a loop that its turns decide, but not the turns alone: what comes from outside has a part in them.
class Guards {
 public:
  Guards(const ForNode& loop, Analyzer& analyzer) : loop_(loop), analyzer_(analyzer) {
    auto scope = analyzer_.enter();
    analyzer_.bind(loop.var, loop.min, loop.extent);
    look(loop.body);
  }
  const std::vector<Ends>& found() const { return found_; }
  const Ends* of(const Expr& guard) const {
    const auto at = std::ranges::find_if(found_, [&](const Ends& ends) { return ends.guard == guard; });
    return at == found_.end() ? nullptr : &*at;
  }

 private:
  void look(const Stmt& body) {
    walk(
        body,
        [&](const Stmt& s) {
          if (const auto* branch = s.as<IfNode>(); branch && !branch->else_body) ask(branch->condition);
          const auto* loop = s.as<ForNode>();
          if (!loop) return true;
          inner_.push_back(loop->var.get());
          if (loop->loop_kind == ForKind::kVectorized) lanes_.push_back(loop->var.get());
          auto scope = analyzer_.enter();
          analyzer_.bind(loop->var, loop->min, loop->extent);
          look(loop->body);
          return false;
        },
        [&](const Expr& e) {
          if (const auto* choice = e.as<SelectNode>()) ask(choice->condition);
          return true;
        });
  }

  void ask(const Expr& condition) {
    for (const Expr& guard : conjuncts(condition)) {
      if (of(guard) || !uses_var(guard, loop_.var.get()) || reads_memory_or_lanes(guard, lanes_)) continue;
      const auto* c = guard.as<BinaryNode>();
      if (!c || (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) || c->a.dtype() != kI64) continue;
      // turn * k + outside + inside < 0
      const LinearForm form = analyzer_.linear(c->a - c->b + (c->op == BinaryOp::kLe ? -1 : 0));
      const int64_t k = form.coeff_of(loop_.var);
      LinearForm outside(form.constant), inside;
      bool mixed = k <= 0;
      for (const LinearTerm& term : form.terms) {
        if (term.expr == loop_.var) continue;
        bool in = false, out = false;
        for (const Var& var : collect_vars(term.expr)) {
          mixed |= var == loop_.var;
          (std::ranges::find(inner_, var.get()) != inner_.end() ? in : out) = true;
        }
        mixed |= in && out;
        (in ? inside : outside).terms.push_back(term);
      }
      const Interval bounds = analyzer_.int_bounds(inside);
      if (mixed || !bounds.is_bounded()) continue;
      // turn < ceil(-(outside + inside) / k)
      const auto end = [&](int64_t most) {
        LinearForm negated = outside;
        negated.add_constant(most);
        negated.scale(-1);
        return analyzer_.simplify(floordiv(to_expr(negated) + (k - 1), Expr(k)));
      };
      found_.push_back({guard, end(bounds.max), end(bounds.min)});
    }
  }

  const ForNode& loop_;
  Analyzer& analyzer_;
  std::vector<const VarNode*> inner_, lanes_;
  std::vector<Ends> found_;
};

// The turn from on which nothing is done that could be seen outside of a turn; null: there is none.
class LastEffect {
 public:
  LastEffect(const Guards& guards, Analyzer& analyzer) : guards_(guards), analyzer_(analyzer) {}
  Expr of(const Stmt& body) {
    look(body);
    return endless_ ? Expr() : end_;
  }

 private:
  void look(const Stmt& body) {
    walk(body, [&](const Stmt& s) {
      switch (s.kind()) {
        case StmtKind::kAllocate:
          own_.push_back(s.as<AllocateNode>()->buffer.get());
          return true;
        case StmtKind::kStore:
          endless_ |= std::ranges::find(own_, s.as<StoreNode>()->buffer.get()) == own_.end();
          return false;
        case StmtKind::kIf: {
          const auto* branch = s.as<IfNode>();
          for (const Expr& guard : conjuncts(branch->condition))
            if (const Ends* ends = guards_.of(guard); ends && !branch->else_body) {
              if (!end_ || analyzer_.can_prove(le(end_, ends->any)))
                end_ = ends->any;
              else if (!analyzer_.can_prove(le(ends->any, end_)))
                end_ = max(end_, ends->any);
              return false;
            }
          return true;
        }
        case StmtKind::kFor:
        case StmtKind::kSeq:
          return true;
        default:
          endless_ = true;
          return false;
      }
    });
  }

  const Guards& guards_;
  Analyzer& analyzer_;
  std::vector<const BufferNode*> own_;
  Expr end_;
  bool endless_ = false;
};

// The body of turns in which some guards are known.
class Decided : public StmtMutator {
 public:
  explicit Decided(std::function<std::optional<bool>(const Expr&)> decide) : decide_(std::move(decide)) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* choice = e.as<SelectNode>();
    if (!choice) return Mutator::rewrite(e);
    const Expr condition = left_of(choice->condition);
    if (is_true(condition)) return rewrite(choice->if_true);
    if (is_zero(condition)) return rewrite(choice->if_false);
    return select(condition, rewrite(choice->if_true), rewrite(choice->if_false));
  }
  Stmt rewrite(const Stmt& s) override {
    const auto* branch = s.as<IfNode>();
    if (!branch || branch->else_body) return Mutator::rewrite(s);
    const Expr condition = left_of(branch->condition);
    if (is_zero(condition)) return nullptr;
    Stmt body = rewrite(branch->then_body);
    if (!body || is_true(condition)) return body;
    return if_then(condition, std::move(body));
  }

 private:
  Expr left_of(const Expr& condition) {
    Expr left;
    for (const Expr& guard : conjuncts(condition)) {
      const std::optional<bool> known = decide_(guard);
      if (known && !*known) return bool_imm(false);
      if (!known) left = logical_and(left, guard);
    }
    return left ? left : bool_imm(true);
  }

  std::function<std::optional<bool>(const Expr&)> decide_;
};

class TurnSplitter : public RangeMutator {
 public:
  explicit TurnSplitter(const Func& func) : RangeMutator(func) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (const auto* made = s.as<AllocateNode>(); made && is_in_registers(*made->buffer)) {
      ++kernels_;
      Stmt result = Mutator::rewrite(s);
      --kernels_;
      return result;
    }
    const auto* loop = s.as<ForNode>();
    if (!loop || kernels_ == 0 || loop->loop_kind != ForKind::kSerial) return RangeMutator::rewrite(s);
    const Stmt parts = split(*loop);
    return parts ? parts : RangeMutator::rewrite(s);
  }

 private:
  Stmt split(const ForNode& loop) {
    const Guards guards(loop, analyzer_);
    if (guards.found().empty()) return nullptr;
    Expr whole;
    for (const Ends& ends : guards.found()) whole = whole ? min(whole, ends.all) : ends.all;
    const Expr last = LastEffect(guards, analyzer_).of(loop.body);
    const auto turns_before = [&](const Expr& end) {
      return analyzer_.simplify(max(min(loop.extent, end - loop.min), Expr(0)));
    };
    const Expr first = turns_before(whole);
    const Expr rest = analyzer_.simplify((last ? turns_before(last) : loop.extent) - first);
    std::vector<Stmt> parts;
    const auto add = [&](const Expr& begin, const Expr& turns, Decided decided) {
      if (is_zero(turns)) return;
      const Stmt body = decided.rewrite(loop.body);
      if (!body) return;
      parts.push_back(with(loop, [&](ForNode& part) {
        part.min = begin;
        part.extent = turns;
        part.body = body;
      }));
    };
    add(loop.min, first,
        Decided([&](const Expr& guard) { return guards.of(guard) ? std::optional(true) : std::nullopt; }));
    const Expr begin = analyzer_.simplify(loop.min + first);
    add(begin, rest, Decided([&](const Expr& guard) -> std::optional<bool> {
          const Ends* ends = guards.of(guard);
          if (!ends || !analyzer_.can_prove(le(ends->any, whole))) return std::nullopt;
          return false;
        }));
    if (parts.size() == 2) parts[1] = rename_bound(parts[1]);
    return seq(std::move(parts));
  }

  int kernels_ = 0;  // around
};

}  // namespace

Func split_turns(const Func& func) {
  return has_guards(func->body) ? with_body(func, TurnSplitter(func).rewrite(func->body)) : func;
}

}  // namespace fettle
