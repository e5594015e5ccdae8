#include <algorithm>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "arith/analyzer.h"
#include "arith/linear.h"
#include "base/pointer_map.h"
#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"
#include "lower/passes/range_mutator.h"
#include "schedule/dataflow/dataflow.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

constexpr int kMaxDepth = 8;
constexpr int kMaxCopies = 16;
/// Heights, at most, of tiles that are told apart when the program runs, each by a copy of its own; and widths, in
/// vectors.
constexpr int64_t kMostHeights = 16, kMostWidths = 8;

// Variables bound inside a micro-kernel, by the kind of loop.
struct InnerVars {
  PointerMap<const VarNode*, ForKind> kinds;
  PointerMap<const VarNode*, int64_t> extents;  // of loops from 0, where it is a constant

  int64_t extent(const VarNode* var) const {
    const auto found = extents.find(var);
    return found == extents.end() ? 0 : found->second;
  }
};

InnerVars inner_vars(const Stmt& kernel) {
  InnerVars vars;
  walk(kernel, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) {
      vars.kinds[loop->var.get()] = loop->loop_kind;
      if (const int64_t* extent = as_int(loop->extent); extent && is_zero(loop->min))
        vars.extents[loop->var.get()] = *extent;
    }
    if (const auto* bind = s.as<LetNode>()) vars.kinds[bind->var.get()] = ForKind::kSerial;
    return true;
  });
  return vars;
}

// Replaces every occurrence of an expression, structurally.
class ExprReplacer : public Mutator {
 public:
  ExprReplacer(Expr from, Expr to) : from_(std::move(from)), to_(std::move(to)) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (e && e.kind() == from_.kind() && structural_equal(e, from_)) return to_;
    return Mutator::rewrite(e);
  }

 private:
  Expr from_, to_;
};

// Comparisons that speak of `number` speak of its value: with number = n - r*4 and 3 for it
//   r*4 + i < n   →   i < 3
class NumberReplacer : public Mutator {
 public:
  NumberReplacer(Analyzer& analyzer, const LinearForm& number, int64_t value)
      : analyzer_(analyzer), number_(number), value_(value) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* c = e.as<BinaryNode>();
    if (!c || (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) || c->a.dtype() != kI64) return Mutator::rewrite(e);
    LinearForm form = analyzer_.linear(c->a - c->b);
    for (const LinearTerm& term : number_.terms)
      if (form.coeff_of(term.expr) != -term.coeff) return Mutator::rewrite(e);
    form.add(number_);
    form.add_constant(-value_);
    return binary(c->op, analyzer_.to_expr(form), Expr(0));
  }

 private:
  Analyzer& analyzer_;
  const LinearForm& number_;
  const int64_t value_;
};

// The same of vectors: lanes of whole ones are all there, those of the last are as many as are left, and further ones
// are not there. With number = n - p*64, more than 16 and at most 32:
//   for v in 4 unrolled: for l in 16 vectorized: if p*64 + v*16 + l < n: S
//   →  for v in 1 unrolled: for l: S;  for l: if p*64 + 16 + l < n: S (v = 1);  for v in 2 unrolled: for l: if false: S
class WidthReplacer : public Mutator {
 public:
  WidthReplacer(Analyzer& analyzer, const LinearForm& number, int64_t lanes, int64_t vectors)
      : analyzer_(analyzer), number_(number), lanes_(lanes), vectors_(vectors) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const auto* loop = s.as<ForNode>();
    if (!loop || loop->loop_kind != ForKind::kUnrolled || !speaks_of(loop->body, loop->var)) return Mutator::rewrite(s);
    std::vector<Stmt> parts;
    if (vectors_ > 1)
      parts.push_back(turns(*loop, 0, vectors_ - 1, Values(*this, loop->var, true).rewrite(loop->body)));
    parts.push_back(rename_bound(substitute(loop->body, {{loop->var.get(), Expr(vectors_ - 1)}})));
    if (const int64_t more = *as_int(loop->extent) - vectors_; more > 0)
      parts.push_back(rename_bound(turns(*loop, vectors_, more, Values(*this, loop->var, false).rewrite(loop->body))));
    return seq(std::move(parts));
  }

 private:
  // Lanes that are all there, or none of them, do not ask.
  class Values : public Mutator {
   public:
    Values(const WidthReplacer& of, const Var& var, bool whole) : of_(of), var_(var), whole_(whole) {}
    using Mutator::rewrite;
    Expr rewrite(const Expr& e) override {
      const auto beyond = of_.beyond_number(e, var_);
      if (!beyond) return Mutator::rewrite(e);
      // lanes * (vectors - 1) < number <= lanes * vectors
      if (whole_ && *beyond <= 1) return bool_imm(true);
      if (!whole_ && *beyond >= 0) return bool_imm(false);
      return e;
    }

   private:
    const WidthReplacer& of_;
    const Var& var_;
    const bool whole_;
  };

  static Stmt turns(const ForNode& loop, int64_t first, int64_t count, const Stmt& body) {
    auto part = make_ref<ForNode>(loop);
    part->extent = count;
    part->body = first == 0 ? body : substitute(body, {{loop.var.get(), Expr(loop.var) + first}});
    return part;
  }
  // x, where `e` says var*lanes + lane + x < number.
  std::optional<int64_t> beyond_number(const Expr& e, const Var& var) const {
    const auto* c = e.as<BinaryNode>();
    if (!c || (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) || c->a.dtype() != kI64 || !uses_var(e, var.get()))
      return {};
    LinearForm form = analyzer_.linear(c->a - c->b + (c->op == BinaryOp::kLe ? -1 : 0));
    form.add(number_);
    if (form.terms.size() != 2 || form.coeff_of(var) != lanes_) return {};
    const LinearTerm& other = form.terms[form.terms[0].expr == var ? 1 : 0];
    return other.coeff == 1 && other.expr.as<VarNode>() ? std::optional(form.constant) : std::nullopt;
  }
  bool speaks_of(const Stmt& body, const Var& var) const {
    return contains<BinaryNode>(body,
                                [&](const BinaryNode& node) { return beyond_number(Expr(&node), var).has_value(); });
  }

  Analyzer& analyzer_;
  const LinearForm& number_;
  const int64_t lanes_, vectors_;
};

// Resolves the kernel's guards as far as the analyzer's facts allow.
class GuardSimplifier : public RangeMutator {
 public:
  explicit GuardSimplifier(Analyzer& analyzer) : RangeMutator(analyzer) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (const auto* choice = e.as<SelectNode>()) {
      Expr condition = analyzer_.simplify(choice->condition);
      if (const int64_t* known = as_int(condition)) return rewrite(*known ? choice->if_true : choice->if_false);
      Expr if_true = rewrite(choice->if_true), if_false = rewrite(choice->if_false);
      if (condition == choice->condition && if_true == choice->if_true && if_false == choice->if_false) return e;
      return select(condition, std::move(if_true), std::move(if_false));
    }
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* choice = s.as<IfNode>()) {
      Expr condition = analyzer_.simplify(choice->condition);
      if (const int64_t* known = as_int(condition))
        return *known ? rewrite(choice->then_body) : rewrite(choice->else_body);
      Stmt then_body = rewrite(choice->then_body), else_body = rewrite(choice->else_body);
      if (!then_body && !else_body) return nullptr;
      if (!then_body) return if_then(logical_not(condition), else_body);
      return if_then(condition, then_body, else_body);
    }
    return RangeMutator::rewrite(s);
  }
};

class Dispatcher : public RangeMutator {
 public:
  Dispatcher(const Func& func, bool lanes_too) : RangeMutator(func), lanes_too_(lanes_too), func_(func) {}
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    if (const auto* alloc = s.as<AllocateNode>(); alloc && is_in_registers(*alloc->buffer)) {
      copies_ = 1;
      return specialise(s, 0);
    }
    if (s.as<AllocateNode>() && !func_->int_params.empty() && is_straight(s)) return apart_from_borders(s);
    const auto* loop = s.as<ForNode>();
    if (loop) outer_.push_back(loop);
    Stmt result = RangeMutator::rewrite(s);
    if (loop) outer_.pop_back();
    return result;
  }

 private:
  struct Comparison {
    Expr expr;
    bool is_guard;  // of a statement, not of a value
  };

  // The comparisons of `kernel` in program order, those of guards and of selections' conditions.
  static std::vector<Comparison> comparisons_of(const Stmt& kernel) {
    std::vector<Comparison> found;
    const auto from_condition = [&](const Expr& condition, bool is_guard) {
      walk(condition, [&](const Expr& e) {
        const auto* c = e.as<BinaryNode>();
        if (c &&
            (c->op == BinaryOp::kLt || c->op == BinaryOp::kLe || c->op == BinaryOp::kEq || c->op == BinaryOp::kNe) &&
            c->a.dtype() == kI64 && !reads_memory(e))
          found.push_back({e, is_guard});
        return true;
      });
    };
    walk(
        kernel,
        [&](const Stmt& s) {
          if (const auto* choice = s.as<IfNode>()) from_condition(choice->condition, true);
          return true;
        },
        [&](const Expr& e) {
          if (const auto* choice = e.as<SelectNode>()) from_condition(choice->condition, false);
          return true;
        });
    return found;
  }

  // Tails that the schedule asked to mask or pad stay guards on lanes.
  bool is_lane_guard(const Expr& comparison, const InnerVars& inner) const {
    bool lanes = false, masked = false;
    for (const Var& var : collect_vars(comparison)) {
      const auto found = inner.kinds.find(var.get());
      if (found != inner.kinds.end() && found->second == ForKind::kVectorized) lanes = true;
      for (const ForNode* loop : outer_)
        if (loop->var == var && (loop->tail == Tail::kMask || loop->tail == Tail::kPad || loop->tail == Tail::kGuard))
          masked = true;
    }
    return lanes && masked;
  }

  // What is unrolled and in lanes, without loops that turn and without registers.
  static bool is_straight(const Stmt& s) {
    return !contains<ForNode>(s, [](const ForNode& loop) {
      return loop.loop_kind != ForKind::kUnrolled && loop.loop_kind != ForKind::kVectorized;
    }) && !contains<AllocateNode>(s, [](const AllocateNode& made) { return is_in_registers(*made.buffer); });
  }

  // A predicate over the outer variables for which `comparison` holds in all turns and lanes, or null.
  Expr holds_throughout(const Expr& comparison, const InnerVars& inner) {
    const auto* c = comparison.as<BinaryNode>();
    if (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) return {};
    const auto parts = parts_of(comparison, inner);
    if (!parts) return {};
    LinearForm highest = parts->outer;
    highest.add_constant(parts->inside.max);
    return analyzer_.simplify(lt(to_expr(highest), 0));
  }

  // Of `conditions`, those that the others do not imply.
  std::vector<Expr> without_implied(std::vector<Expr> conditions) {
    // What is strongest may come first or last.
    for (int turn = 0; turn < 2; ++turn) {
      std::ranges::reverse(conditions);
      std::vector<Expr> kept;
      Expr all;
      for (const Expr& condition : conditions) {
        auto scope = analyzer_.enter();
        if (all) analyzer_.add_assumption(all);
        if (analyzer_.can_prove(condition)) continue;
        kept.push_back(condition);
        all = logical_and(all, condition);
      }
      conditions = std::move(kept);
    }
    return conditions;
  }

  // Straight code whose guards speak of an image of open size: once for what lies inside, without them.
  Stmt apart_from_borders(const Stmt& s) {
    const InnerVars inner = inner_vars(s);
    std::vector<Expr> conditions;
    {
      auto scope = analyzer_.enter();
      bind_inner(s);
      for (const auto& [comparison, is_guard] : comparisons_of(s)) {
        if (!uses_outer(comparison, inner) || is_lane_guard(comparison, inner)) continue;
        if (Expr condition = holds_throughout(comparison, inner)) conditions.push_back(std::move(condition));
      }
    }
    conditions = without_implied(std::move(conditions));
    if (conditions.empty()) return s;
    Expr inside;
    for (const Expr& condition : conditions) {
      if (is_zero(condition)) return s;
      inside = logical_and(inside, condition);
    }
    const auto assumed = analyzer_.assume(inside);
    return if_then(inside, GuardSimplifier(analyzer_).rewrite(s), rename_bound(s));
  }

  static bool uses_outer(const Expr& comparison, const InnerVars& inner) {
    return contains<VarNode>(comparison, [&](const VarNode& var) { return !inner.kinds.contains(&var); });
  }

  bool is_open(const Expr& e) const {
    return std::ranges::any_of(func_->int_params, [&](const IntParam& p) { return uses_var(e, p.var.get()); });
  }

  // outer + inside < 0, of a comparison (< or <=) that no loop's variable has a term of with one from outside.
  //   outer + inside < 0 for all lanes of the unrolled loops  ⇔  outer + max(inside) < 0
  struct Parts {
    LinearForm outer;
    Interval inside;
  };
  std::optional<Parts> parts_of(const Expr& comparison, const InnerVars& inner) {
    const auto* c = comparison.as<BinaryNode>();
    LinearForm form = analyzer_.linear(c->a - c->b + (c->op == BinaryOp::kLe ? -1 : 0));
    LinearForm outer(form.constant), inside;
    for (const LinearTerm& term : form.terms) {
      bool in = false, out = false;
      for (const Var& var : collect_vars(term.expr)) (inner.kinds.count(var.get()) ? in : out) = true;
      if (in && out) return std::nullopt;
      (in ? inside : outer).terms.push_back(term);
    }
    const Interval bounds = analyzer_.int_bounds(inside);
    if (!bounds.is_bounded()) return std::nullopt;
    return Parts{std::move(outer), bounds};
  }

  struct Question {
    Expr predicate;                                   // in outer variables only
    Expr substitute;                                  // where it fails, this outer expression …
    Expr value;                                       // … has this one value (may be null)
    std::optional<LinearForm> number = std::nullopt;  // … or this sum of outer terms
    bool of_heights = false;                          // one of a row of questions that ends by itself
    Var rolled = {};                                  // … the loop of this variable is no longer unrolled
    int64_t lanes = 0;  // the number fills vectors of so many, of which there are `value`, the last one in part
  };

  // What comparisons are asked about: in this order, as each is decided for what the ones before have told apart.
  enum class About : uint8_t {
    kTiles,  // what tiles have unrolled, and tails of open sizes
    kLanes,  // what is left of vectors
    kTurns,  // tails that a loop inside reaches in one of its turns, with what is unrolled in it
  };

  // A predicate over the outer variables that decides `comparison` in one of its cases; null where it is about
  // something else. `is_guard`: of statements, not of values.
  std::optional<Question> ask(const Expr& comparison, const InnerVars& inner, About about, bool is_guard) {
    const auto* c = comparison.as<BinaryNode>();
    bool uses_inner = false, uses_serial = false, uses_unrolled = false, uses_outer = false;
    for (const Var& var : collect_vars(comparison)) {
      const auto found = inner.kinds.find(var.get());
      if (found == inner.kinds.end())
        uses_outer = true;
      else {
        uses_inner = true;
        uses_serial |= found->second == ForKind::kSerial;
        uses_unrolled |= found->second == ForKind::kUnrolled;
      }
    }
    if (!uses_outer) return std::nullopt;
    if (!uses_inner) return Question{comparison, nullptr, nullptr};
    // Taps at a border are told apart by the bounds of their loop, but not where rows beside them have taps of their
    // own.
    if (uses_serial && at_border_) return std::nullopt;
    const bool of_turns = uses_serial && !is_open(comparison);
    if (of_turns != (about == About::kTurns) || (of_turns && !uses_unrolled)) return std::nullopt;
    if (is_lane_guard(comparison, inner) != (about == About::kLanes)) return std::nullopt;
    // A condition inside, over outer variables alone: (i0 < r ? 14 : 13).
    Expr nested;
    const auto is_inner = [&](const VarNode& var) { return inner.kinds.contains(&var); };
    if (contains<SelectNode>(comparison, [&](const SelectNode& choice) {
          nested = choice.condition;
          return !contains<VarNode>(nested, is_inner);
        }))
      return Question{nested, nullptr, nullptr};
    if (c->op != BinaryOp::kLt && c->op != BinaryOp::kLe) return std::nullopt;
    const auto parts = parts_of(comparison, inner);
    if (!parts) return std::nullopt;
    const auto& [outer, inside_bounds] = *parts;
    LinearForm highest = outer;
    highest.add_constant(inside_bounds.max);
    Expr all_true = analyzer_.simplify(lt(to_expr(highest), 0));
    // Of a tail that loops inside walk through, whether there is one.
    if (uses_serial) {
      if (as_int(all_true) || analyzer_.can_prove(logical_not(all_true))) return std::nullopt;
      return Question{all_true, nullptr, nullptr};
    }
    if (auto question = height(comparison, inner, outer, inside_bounds, all_true)) return question;
    if (is_guard)
      if (auto question = width(comparison, inner, outer, all_true)) return question;
    // The only value of a single outer term for which it fails, if there is only one.
    Question question{all_true, nullptr, nullptr};
    if (outer.terms.size() == 1) {
      const LinearTerm& term = outer.terms.front();
      const Interval range = analyzer_.int_bounds(term.expr);
      if (range.is_bounded()) {
        // Fails where coeff * t >= -highest.constant.
        const int64_t limit = -highest.constant;
        int64_t low = range.min, high = range.max;
        if (term.coeff > 0)
          low = std::max(low, -floordiv_int(-limit, term.coeff));
        else
          high = std::min(high, floordiv_int(-limit, -term.coeff));
        if (low > high) return std::nullopt;  // never fails: the analyzer missed it
        if (low == high) {
          question.substitute = term.expr;
          question.value = Expr(low);
        } else if (is_zero(all_true) || high - low < 4) {
          // Several values: one at a time, from the end that the failing range touches.
          const int64_t value = term.coeff > 0 ? high : low;
          if (is_zero(all_true)) {
            question.predicate = ne(term.expr, Expr(value));
            question.substitute = term.expr;
            question.value = Expr(value);
          }
        }
      }
    }
    if (as_int(question.predicate)) return std::nullopt;
    return question;
  }

  bool is_open(const LinearForm& form) const {
    return std::ranges::any_of(form.terms, [&](const LinearTerm& term) { return is_open(term.expr); });
  }

  // Of vectors side by side that the program is told when it runs how many lanes are left of, fewer than all vectors
  // have: each number of vectors is a copy, of which the last alone is under a mask.
  //   for v in 2 unrolled: for l in 16 vectorized: if p*32 + v*16 + l < n: S
  //   →  if p*32 + 31 < n: 2 times S; else if 16 < n - p*32: S, and S under a mask; else: S under a mask
  std::optional<Question> width(const Expr& comparison, const InnerVars& inner, const LinearForm& outer,
                                const Expr& all_true) {
    if (!is_open(outer)) return {};
    const auto* c = comparison.as<BinaryNode>();
    const LinearForm form = analyzer_.linear(c->a - c->b);
    int64_t step = 0, vectors = 0, lanes = 0;
    for (const LinearTerm& term : form.terms) {
      if (!contains<VarNode>(term.expr, [&](const VarNode& var) { return inner.kinds.contains(&var); })) continue;
      const auto* var = term.expr.as<VarNode>();
      const auto kind = inner.kinds.find(var);
      if (kind == inner.kinds.end()) return {};
      const int64_t extent = inner.extent(var);
      const bool is_lane = kind->second == ForKind::kVectorized;
      if ((is_lane ? lanes : vectors) != 0 || (is_lane && term.coeff != 1)) return {};
      if (!is_lane) step = term.coeff;
      (is_lane ? lanes : vectors) = extent;
    }
    if (lanes < 2 || step != lanes || vectors < 2 || vectors > kMostWidths || analyzer_.can_prove(all_true)) return {};
    LinearForm left = outer;
    left.scale(-1);
    if (!analyzer_.can_prove(logical_not(all_true))) return Question{all_true, nullptr, nullptr, std::nullopt, true};
    int64_t count = 1;
    const auto is_more = [&] { return lt(Expr(lanes * count), to_expr(left)); };
    while (count < vectors && analyzer_.can_prove(is_more())) ++count;
    return Question{is_more(), nullptr, Expr(count), left, true, {}, lanes};
  }

  // Of taps that are unrolled, some of which may lie outside of an image of open size: all inside, or a loop that tells
  // when it runs. Its guards become bounds.
  //   for k in 3 unrolled: if 1 <= h + k && h + k <= n: S
  //   →  if 1 <= h && h + 2 <= n: for k in 3 unrolled: S; else: for k in 3: if 1 <= h + k && h + k <= n: S
  std::optional<Question> all_taps(const Stmt& kernel, const InnerVars& inner) {
    std::optional<Question> found;
    each_node<ForNode>(kernel, [&](const ForNode& loop) {
      const auto* guard = loop.body.as<IfNode>();
      if (found || loop.loop_kind != ForKind::kUnrolled || !guard || guard->else_body) return;
      Expr inside;
      bool open = false;
      for (const Expr& condition : conjuncts(guard->condition)) {
        const auto* c = condition.as<BinaryNode>();
        const bool of_taps = c && c->a.dtype() == kI64 && uses_var(condition, loop.var.get()) &&
                             !contains<VarNode>(condition, [&](const VarNode& var) {
                               return &var != loop.var.get() && inner.kinds.contains(&var);
                             });
        const Expr holds = of_taps ? holds_throughout(condition, inner) : Expr();
        if (!holds) return;
        open |= is_open(parts_of(condition, inner)->outer);
        inside = logical_and(inside, holds);
      }
      const bool is_written_along = contains<StoreNode>(loop.body, [&](const StoreNode& store) {
        return std::ranges::any_of(store.indices, [&](const Expr& index) { return uses_var(index, loop.var.get()); });
      });
      if (open && !is_written_along && !analyzer_.can_prove(inside))
        found = Question{.predicate = inside, .of_heights = true, .rolled = loop.var};
    });
    return found;
  }

  // The kernel where the question's predicate fails.
  Stmt where_it_fails(const Question& question, const Stmt& kernel) {
    if (question.rolled)
      return rewrite_each<ForNode>(
          kernel, [&](const ForNode& loop) { return loop.var == question.rolled ? serialized(loop) : Stmt(); });
    if (question.lanes > 0)
      return WidthReplacer(analyzer_, *question.number, question.lanes, *as_int(question.value)).rewrite(kernel);
    if (question.number) return NumberReplacer(analyzer_, *question.number, *as_int(question.value)).rewrite(kernel);
    if (!question.substitute) return kernel;
    if (const auto* var = question.substitute.as<VarNode>()) return substitute(kernel, {{var, question.value}});
    return ExprReplacer(question.substitute, question.value).rewrite(kernel);
  }

  // Of rows that are unrolled, as many as the program is told when it runs: each number of them is a copy.
  //   for i in 4 unrolled: if r*4 + i < n: S
  //   →  if r*4 + 3 < n: 4 times S; else if n - r*4 < 3: (if n - r*4 < 2: …); else: 3 times S
  std::optional<Question> height(const Expr& comparison, const InnerVars& inner, const LinearForm& outer,
                                 Interval inside, const Expr& all_true) {
    for (const Var& var : collect_vars(comparison)) {
      const auto found = inner.kinds.find(var.get());
      if (found != inner.kinds.end() && found->second != ForKind::kUnrolled) return {};
    }
    if (!is_open(outer)) return {};
    // rows = -outer: as many values of what is inside lie below.
    LinearForm rows = outer;
    rows.scale(-1);
    const int64_t most = inside.max + 1, least = inside.min + 1;
    const Interval range = analyzer_.int_bounds(rows);
    if (most - least > kMostHeights || range.max < least) return {};
    if (!analyzer_.can_prove(logical_not(all_true))) return Question{all_true, nullptr, nullptr, std::nullopt, true};
    int64_t value = std::min(range.max, most - 1);
    for (; value >= least; --value) {
      LinearForm above = rows;
      above.scale(-1);
      above.add_constant(value - 1);
      if (!analyzer_.can_prove_nonnegative(above)) break;  // not yet: rows < value
    }
    if (value < least) return {};
    return Question{lt(to_expr(rows), Expr(value)), nullptr, Expr(value), rows, true};
  }

  Stmt specialise(const Stmt& kernel, int depth) {
    Stmt simple;
    {
      auto scope = analyzer_.enter();
      simple = GuardSimplifier(analyzer_).rewrite(kernel);
    }
    if (!simple) return nullptr;
    const std::optional<Question> question = first_question(simple);
    if (!question) return simple;
    if (question->of_heights)
      --depth;
    else if (depth >= kMaxDepth || copies_ >= kMaxCopies)
      return simple;
    else
      ++copies_;
    if (question->number && analyzer_.can_prove(logical_not(question->predicate)))
      return specialise(where_it_fails(*question, simple), depth);
    Stmt when_true, when_false;
    {
      auto assumed = analyzer_.assume(question->predicate);
      when_true = specialise(simple, depth + 1);
    }
    {
      auto assumed = analyzer_.assume(logical_not(question->predicate));
      const bool outside = at_border_;
      if (question->rolled) {
        at_border_ = true;
        copies_ = 1;  // of another kernel
      }
      when_false = specialise(rename_bound(where_it_fails(*question, simple)), depth + 1);
      at_border_ = outside;
    }
    if (!when_true && !when_false) return nullptr;
    if (!when_true) return if_then(logical_not(question->predicate), when_false);
    return if_then(question->predicate, when_true, when_false);
  }

  // Of what is not decided yet; of lanes last, as all that comes before is decided for whole vectors, too.
  std::optional<Question> first_question(const Stmt& kernel) {
    const InnerVars inner = inner_vars(kernel);
    std::vector<Comparison> comparisons = comparisons_of(kernel);
    // Nothing outside decides the others, as of most that many copies make.
    std::erase_if(comparisons, [&](const Comparison& comparison) { return !uses_outer(comparison.expr, inner); });
    auto scope = analyzer_.enter();
    bind_inner(kernel);
    if (auto question = all_taps(kernel, inner)) return question;
    for (const About about : {About::kTiles, About::kLanes, About::kTurns}) {
      if (about == About::kLanes && !lanes_too_) continue;
      for (const auto& [comparison, is_guard] : comparisons)
        if (auto question = ask(comparison, inner, about, is_guard)) return question;
    }
    return std::nullopt;
  }

  // Ranges of all loops inside, for bounds of the inner part of a comparison.
  void bind_inner(const Stmt& kernel) {
    each_node<ForNode>(kernel, [&](const ForNode& loop) { analyzer_.bind(loop.var, loop.min, loop.extent); });
  }
  std::vector<const ForNode*> outer_;
  bool lanes_too_;
  int copies_ = 0;
  bool at_border_ = false;  // of an image of open size
  const Func& func_;
};

}  // namespace

Func dispatch_micro_kernels(const Func& func, bool lanes_too) {
  if (!has_guards(func->body)) return func;
  return with_body(func, Dispatcher(func, lanes_too).rewrite(func->body));
}

}  // namespace fettle
