#pragma once
// The points of some loops, one by one or a sample of them: what counting is made of.

#include <algorithm>
#include <optional>
#include <vector>

#include "arith/int_eval.h"
#include "base/small_vector.h"
#include "cost/loop_tree/loop_path.h"
#include "ir/visit.h"

namespace fettle {

constexpr double kMostPoints = 4096;

/// Expressions as operations on registers, each done as far outside as its operands are known.
///   for i: for j: f(i * 4 + j < n)   →   for i: r0 = i * 4; for j: f(r0 + j < n)
/// For sums, products, divisions by constants, comparisons, choices; values are those of estimate_int.
class HoistedCode {
 public:
  explicit HoistedCode(const LoopBindings& path) : path_(path), levels_(path.size() + 1) {
    fresh(0, 0);                                               // register 0 is 0
    for (size_t i = 0; i < path.size(); ++i) fresh(0, i + 1);  // then the variables
  }

  /// The register of e's value where the first `depth` bindings of the path are known; nothing where it has other
  /// parts.
  std::optional<size_t> add(const Expr& e, size_t depth) {
    switch (e.kind()) {
      case ExprKind::kIntImm:
        return constant(e.as<IntImmNode>()->value);
      case ExprKind::kVar:
        for (size_t i = depth; i-- > 0;)
          if (path_[i].var == e.as<VarNode>()) return i + 1;
        return 0;
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        const auto a = is_whole(n->a) && is_known(*n) ? add(n->a, depth) : std::nullopt;
        const auto b = a ? add(n->b, depth) : std::nullopt;
        if (!b) return std::nullopt;
        return emit({n->op, false, *a, *b, 0});
      }
      case ExprKind::kNot: {
        const auto a = add(e.as<NotNode>()->a, depth);
        if (!a) return std::nullopt;
        return emit({BinaryOp::kEq, false, *a, 0, 0});
      }
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        const auto c = add(n->condition, depth);
        const auto t = c ? add(n->if_true, depth) : std::nullopt;
        const auto f = t ? add(n->if_false, depth) : std::nullopt;
        if (!f) return std::nullopt;
        return emit({BinaryOp::kAnd, true, *c, *t, *f});
      }
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        if (n->name != "likely" || n->args.size() != 1) return std::nullopt;
        return add(n->args[0], depth);
      }
      default:
        return std::nullopt;
    }
  }

  int64_t value(size_t at) const { return registers_[at]; }
  /// The variable that is bound at `i` of the path.
  void set(size_t i, int64_t value) { registers_[i + 1] = value; }
  /// All that depends on the first `level` bindings, of which the last has just been set.
  void run(size_t level) {
    for (const Op& op : levels_[level]) registers_[op.to] = result_of(op);
  }

 private:
  struct Op {
    BinaryOp op;
    bool selects;  // a ? b : c
    size_t a, b, c;
    size_t to = 0;
  };

  static bool is_whole(const Expr& e) { return e.dtype() == kI64 || e.dtype() == kBool; }
  static bool is_known(const BinaryNode& n) {
    switch (n.op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
      case BinaryOp::kMul:
        return n.a.dtype() == kI64;
      case BinaryOp::kFloorDiv:
      case BinaryOp::kFloorMod: {
        const auto* divisor = n.b.as<IntImmNode>();
        return divisor && divisor->value > 0;
      }
      case BinaryOp::kMin:
      case BinaryOp::kMax:
      case BinaryOp::kEq:
      case BinaryOp::kNe:
      case BinaryOp::kLt:
      case BinaryOp::kLe:
      case BinaryOp::kAnd:
      case BinaryOp::kOr:
        return true;
      default:
        return false;
    }
  }

  size_t fresh(int64_t value, size_t level) {
    registers_.push_back(value);
    level_of_.push_back(level);
    return registers_.size() - 1;
  }
  size_t constant(int64_t value) {
    for (const size_t known : constants_)
      if (registers_[known] == value) return known;
    constants_.push_back(fresh(value, 0));
    return constants_.back();
  }
  // What is done already is not done again.
  size_t emit(Op op) {
    const size_t level = std::max({level_of_[op.a], level_of_[op.b], level_of_[op.c]});
    for (const Op& known : levels_[level])
      if (known.op == op.op && known.selects == op.selects && known.a == op.a && known.b == op.b && known.c == op.c)
        return known.to;
    op.to = fresh(0, level);
    levels_[level].push_back(op);
    return op.to;
  }

  int64_t result_of(const Op& op) const {
    const int64_t a = registers_[op.a], b = registers_[op.b];
    if (op.selects) return a != 0 ? b : registers_[op.c];
    return binary_int(op.op, a, b);
  }

  const LoopBindings& path_;
  std::vector<int64_t> registers_;
  SmallVector<size_t, 8> constants_;
  std::vector<size_t> level_of_;            // how many bindings each register depends on
  std::vector<SmallVector<Op, 4>> levels_;  // what becomes known with each
};

/// What Points asks at the bindings of a path, `which` of them: by HoistedCode, where that can.
class HoistedQuestions {
 public:
  /// Nothing where an expression has parts that the code does not know.
  static std::optional<HoistedQuestions> of(const LoopBindings& path, const std::vector<Expr>& leaves) {
    HoistedQuestions made(path);
    for (size_t i = 0; i < path.size(); ++i)
      for (const Expr* e : {&path[i].min, &path[i].extent, &path[i].value}) {
        const auto at = *e ? made.code_.add(*e, i) : 0;
        if (!at) return std::nullopt;
        made.asked_.push_back(*at);
      }
    for (const Expr& e : leaves) {
      const auto at = made.code_.add(e, path.size());
      if (!at) return std::nullopt;
      made.leaves_.push_back(*at);
    }
    made.code_.run(0);
    return made;
  }

  int64_t min(size_t i) const { return code_.value(asked_[3 * i]); }
  int64_t extent(size_t i) const { return code_.value(asked_[3 * i + 1]); }
  int64_t value(size_t i) const { return code_.value(asked_[3 * i + 2]); }
  bool holds(size_t i) const { return value(i) != 0; }
  void enter(size_t i, int64_t value) {
    code_.set(i, value);
    code_.run(i + 1);
  }
  void pass(size_t i) { code_.run(i + 1); }
  void leave(size_t) {}
  void answer(std::vector<int64_t>& values) const {
    for (size_t i = 0; i < values.size(); ++i) values[i] = code_.value(leaves_[i]);
  }

 private:
  explicit HoistedQuestions(const LoopBindings& path) : code_(path) {}
  HoistedCode code_;
  std::vector<size_t> asked_, leaves_;
};

/// The same of any expressions, each evaluated anew.
class PlainQuestions {
 public:
  PlainQuestions(const LoopBindings& path, const std::vector<Expr>& leaves, int64_t unknown)
      : path_(path), leaves_(leaves), unknown_(unknown) {
    env_.reserve(path.size());
  }
  int64_t min(size_t i) const { return estimate_int(path_[i].min, env_); }
  int64_t extent(size_t i) const { return estimate_int(path_[i].extent, env_, 1); }
  int64_t value(size_t i) const { return estimate_int(path_[i].value, env_); }
  bool holds(size_t i) const { return estimate_int(path_[i].value, env_, 1) != 0; }
  void enter(size_t i, int64_t value) { env_.push(path_[i].var, value); }
  void pass(size_t) {}
  void leave(size_t) { env_.pop(); }
  void answer(std::vector<int64_t>& values) const {
    for (size_t i = 0; i < values.size(); ++i) values[i] = estimate_int(leaves_[i], env_, unknown_);
  }

 private:
  const LoopBindings& path_;
  const std::vector<Expr>& leaves_;
  const int64_t unknown_;
  IntEnv env_;
};

class Points {
 public:
  Points(const LoopBindings& path, const IntEnv& middle) : path_(path), middle_(middle) {}

  /// Calls fn(values of `exprs`, weight) for the points of the loops around that these and the conditions on the way
  /// depend on, until it returns false. Parts without a value count as `unknown`.
  template <class Fn>
  void for_each(const std::vector<Expr>& exprs, int64_t unknown, const Fn& fn) {
    std::vector<const VarNode*> needed;
    const auto need = [&](const Expr& e) {
      if (!e || as_int(e)) return;
      walk(e, [&](const Expr& x) {
        if (const auto* var = x.as<VarNode>(); var && std::ranges::find(needed, var) == needed.end())
          needed.push_back(var);
        return true;
      });
    };
    for (const Expr& e : exprs) need(e);
    // Whether each variable on the way is needed.
    turns_.assign(path_.size(), 0);
    double points = 1;
    for (size_t i = path_.size(); i-- > 0;) {
      const LoopBinding& b = path_[i];
      if (!b.var) {
        need(b.value);
        continue;
      }
      turns_[i] = std::ranges::find(needed, b.var) != needed.end();
      if (b.value) {
        if (turns_[i]) need(b.value);
      } else {
        need(b.min);
        need(b.extent);  // its count weighs
        if (turns_[i]) points *= std::max<double>(1, static_cast<double>(estimate_int(b.extent, middle_, 1)));
      }
    }
    values_.assign(exprs.size(), 0);
    const double weight = choose_steps(points);
    if (weight == 0) return;
    if (auto hoisted = HoistedQuestions::of(path_, exprs)) {
      visit(*hoisted, 0, points, weight, fn);
    } else {
      PlainQuestions plain(path_, exprs, unknown);
      visit(plain, 0, points, weight, fn);
    }
  }

 private:
  // What is visited, and the weight of all else: loops of constant extent that nothing depends on. Weights are whole
  // numbers, and their products exact while they are small.
  double choose_steps(double points) {
    constexpr double kExact = 0x1p40;
    const auto counts_only = [&](size_t i) {
      return path_[i].var && !turns_[i] && (path_[i].value || as_int(path_[i].extent));
    };
    double weight = 1;
    for (size_t i = 0; i < path_.size(); ++i)
      if (counts_only(i) && !path_[i].value)
        weight *= static_cast<double>(std::max<int64_t>(0, *as_int(path_[i].extent)));
    const bool exact = weight * points < kExact;
    steps_.clear();
    for (size_t i = 0; i < path_.size(); ++i)
      if (!exact || !counts_only(i)) steps_.push_back(i);
    return exact ? weight : 1;
  }

  template <class Questions, class Fn>
  bool visit(Questions& ask, size_t depth, double points, double weight, const Fn& fn) {
    if (depth == steps_.size()) {
      ask.answer(values_);
      return fn(values_, weight);
    }
    const size_t at = steps_[depth];
    const LoopBinding& b = path_[at];
    if (!b.var) {
      if (ask.holds(at) == b.negated) return true;
      ask.pass(at);
      return visit(ask, depth + 1, points, weight, fn);
    }
    const auto visit_with = [&](int64_t value, double its_weight) {
      bool more = true;
      ask.enter(at, value);
      if (depth + 1 == steps_.size()) {
        ask.answer(values_);
        more = fn(values_, its_weight);
      } else {
        more = visit(ask, depth + 1, points, its_weight, fn);
      }
      ask.leave(at);
      return more;
    };
    if (b.value) return visit_with(turns_[at] ? ask.value(at) : 0, weight);
    const int64_t extent = ask.extent(at);
    if (extent <= 0) return true;
    const int64_t min = ask.min(at);
    if (!turns_[at]) return visit_with(min, weight * static_cast<double>(extent));
    // Beyond the limit: the first, the last and some in between.
    int64_t step = 1;
    if (points > kMostPoints && extent > 4) {
      step = static_cast<int64_t>(std::min(points / kMostPoints + 1, static_cast<double>(extent) / 4));
      points /= static_cast<double>(step);
    }
    for (int64_t i = 0; i < extent;) {
      int64_t covers = 1;
      if (i > 0 && i < extent - 1) covers = std::min(step, extent - 1 - i);
      if (!visit_with(min + i + (covers - 1) / 2, weight * static_cast<double>(covers))) return false;
      i += covers;
    }
    return true;
  }

  const LoopBindings& path_;
  const IntEnv& middle_;
  std::vector<char> turns_;
  std::vector<size_t> steps_;  // of the path, in order
  std::vector<int64_t> values_;
};

}  // namespace fettle
