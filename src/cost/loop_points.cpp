#include "cost/loop_points.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "base/check.h"
#include "base/hash.h"
#include "base/small_vector.h"
#include "ir/visit.h"

namespace fettle {
namespace {

constexpr double kMostPoints = 4096;
constexpr size_t kMostRemembered = 4096;

using Key = std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = key.size();
    for (const int64_t part : key) h = hash_combine(h, static_cast<uint64_t>(part));
    return h;
  }
};

// A question with all that its answer depends on; variables by where they are bound. Equal keys are equal questions.
class KeyWriter {
 public:
  explicit KeyWriter(int64_t kind) { key_.push_back(kind); }

  void add(const Expr& e) {
    if (!e) return key_.push_back(-1);
    key_.push_back(static_cast<int64_t>(e.kind()));
    switch (e.kind()) {
      case ExprKind::kIntImm:
        return key_.push_back(e.as<IntImmNode>()->value);
      case ExprKind::kVar:
        return key_.push_back(number(e.as<VarNode>()));
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        key_.push_back(static_cast<int64_t>(n->op));
        add_type(n->a);
        add(n->a);
        return add(n->b);
      }
      case ExprKind::kNot:
        return add(e.as<NotNode>()->a);
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        add(n->condition);
        add(n->if_true);
        return add(n->if_false);
      }
      case ExprKind::kCast:
        add_type(e);
        add_type(e.as<CastNode>()->a);
        return add(e.as<CastNode>()->a);
      case ExprKind::kRamp:
        return add(e.as<RampNode>()->base);
      case ExprKind::kBroadcast:
        return add(e.as<BroadcastNode>()->value);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        key_.push_back(n->name == "likely");
        if (n->name == "likely" && n->args.size() == 1) add(n->args[0]);
        return;
      }
      default:  // without a value
        return;
    }
  }

  // Innermost first, so that all uses of a variable come before its binding.
  Key finish(const std::vector<LoopBinding>& path) && {
    for (size_t i = path.size(); i-- > 0;) {
      const LoopBinding& b = path[i];
      if (!b.var) {
        key_.push_back(b.negated ? -3 : -2);
        add(b.value);
        continue;
      }
      const auto used = std::ranges::find(vars_, b.var);
      const int64_t known = used == vars_.end() ? -1 : used - vars_.begin();
      if (b.value && known < 0) continue;
      key_.push_back(known);
      add(b.value);
      if (b.value) continue;
      add(b.min);
      add(b.extent);
    }
    return std::move(key_);
  }

 private:
  int64_t number(const VarNode* var) {
    const auto known = std::ranges::find(vars_, var);
    if (known != vars_.end()) return known - vars_.begin();
    vars_.push_back(var);
    return static_cast<int64_t>(vars_.size()) - 1;
  }
  void add_type(const Expr& e) {
    const DType type = e.dtype();
    key_.push_back(static_cast<int64_t>(type.code) * 256 + type.bits);
  }

  Key key_;
  std::vector<const VarNode*> vars_;
};

template <class Answer>
struct Memory {
  std::unordered_map<Key, Answer, KeyHash> answers;
  template <class Ask>
  const Answer& find(Key key, const Ask& ask) {
    const auto known = answers.find(key);
    if (known != answers.end()) return known->second;
    if (answers.size() >= kMostRemembered) answers.clear();
    return answers.emplace(std::move(key), ask()).first->second;
  }
};

/// Expressions as operations on registers, each done as far outside as its operands are known.
///   for i: for j: f(i * 4 + j < n)   →   for i: r0 = i * 4; for j: f(r0 + j < n)
/// For sums, products, divisions by constants, comparisons, choices; values are those of estimate_int.
class HoistedCode {
 public:
  explicit HoistedCode(const std::vector<LoopBinding>& path) : path_(path), levels_(path.size() + 1) {
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
    const auto ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
    switch (op.op) {
      case BinaryOp::kAdd:
        return static_cast<int64_t>(ua + ub);
      case BinaryOp::kSub:
        return static_cast<int64_t>(ua - ub);
      case BinaryOp::kMul:
        return static_cast<int64_t>(ua * ub);
      case BinaryOp::kFloorDiv:
        return floordiv_int(a, b);
      case BinaryOp::kFloorMod:
        return floormod_int(a, b);
      case BinaryOp::kMin:
        return std::min(a, b);
      case BinaryOp::kMax:
        return std::max(a, b);
      case BinaryOp::kEq:
        return a == b;
      case BinaryOp::kNe:
        return a != b;
      case BinaryOp::kLt:
        return a < b;
      case BinaryOp::kLe:
        return a <= b;
      case BinaryOp::kAnd:
        return a != 0 && b != 0;
      case BinaryOp::kOr:
        return a != 0 || b != 0;
      default:
        FETTLE_UNREACHABLE();
    }
  }

  const std::vector<LoopBinding>& path_;
  std::vector<int64_t> registers_;
  SmallVector<size_t, 8> constants_;
  std::vector<size_t> level_of_;            // how many bindings each register depends on
  std::vector<SmallVector<Op, 4>> levels_;  // what becomes known with each
};

/// What Points asks at the bindings of a path, `which` of them: by HoistedCode, where that can.
class HoistedQuestions {
 public:
  /// Nothing where an expression has parts that the code does not know.
  static std::optional<HoistedQuestions> of(const std::vector<LoopBinding>& path, const std::vector<Expr>& leaves) {
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
  explicit HoistedQuestions(const std::vector<LoopBinding>& path) : code_(path) {}
  HoistedCode code_;
  std::vector<size_t> asked_, leaves_;
};

/// The same of any expressions, each evaluated anew.
class PlainQuestions {
 public:
  PlainQuestions(const std::vector<LoopBinding>& path, const std::vector<Expr>& leaves, int64_t unknown)
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
  const std::vector<LoopBinding>& path_;
  const std::vector<Expr>& leaves_;
  const int64_t unknown_;
  IntEnv env_;
};

class Points {
 public:
  Points(const std::vector<LoopBinding>& path, const IntEnv& middle) : path_(path), middle_(middle) {}

  /// Calls fn(values of `exprs`, weight) for the points of the loops around that these and the conditions on the way
  /// depend on. Parts without a value count as `unknown`.
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
    if (auto hoisted = HoistedQuestions::of(path_, exprs)) return visit(*hoisted, 0, points, weight, fn);
    PlainQuestions plain(path_, exprs, unknown);
    visit(plain, 0, points, weight, fn);
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
  void visit(Questions& ask, size_t depth, double points, double weight, const Fn& fn) {
    if (depth == steps_.size()) {
      ask.answer(values_);
      return fn(values_, weight);
    }
    const size_t at = steps_[depth];
    const LoopBinding& b = path_[at];
    if (!b.var) {
      if (ask.holds(at) == b.negated) return;
      ask.pass(at);
      return visit(ask, depth + 1, points, weight, fn);
    }
    const auto visit_with = [&](int64_t value, double its_weight) {
      ask.enter(at, value);
      if (depth + 1 == steps_.size()) {
        ask.answer(values_);
        fn(values_, its_weight);
      } else {
        visit(ask, depth + 1, points, its_weight, fn);
      }
      ask.leave(at);
    };
    if (b.value) return visit_with(turns_[at] ? ask.value(at) : 0, weight);
    const int64_t extent = ask.extent(at);
    if (extent <= 0) return;
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
      visit_with(min + i + (covers - 1) / 2, weight * static_cast<double>(covers));
      i += covers;
    }
  }

  const std::vector<LoopBinding>& path_;
  const IntEnv& middle_;
  std::vector<char> turns_;
  std::vector<size_t> steps_;  // of the path, in order
  std::vector<int64_t> values_;
};

}  // namespace

double LoopPoints::average_extent(const Expr& extent) const {
  thread_local Memory<double> memory;
  KeyWriter writer(0);
  writer.add(extent);
  return memory.find(std::move(writer).finish(path_), [&] {
    double iterations = 0, total = 0;
    Points(path_, middle_).for_each({extent}, 1, [&](const std::vector<int64_t>& values, double weight) {
      iterations += weight * static_cast<double>(std::max<int64_t>(0, values[0]));
      total += weight;
    });
    return total > 0 ? iterations / total : 0;
  });
}

double LoopPoints::share(const Expr& condition) const {
  thread_local Memory<double> memory;
  KeyWriter writer(0);
  writer.add(condition);
  return memory.find(std::move(writer).finish(path_), [&] {
    double holds = 0, total = 0;
    Points(path_, middle_).for_each({condition}, 1, [&](const std::vector<int64_t>& values, double weight) {
      if (values[0]) holds += weight;
      total += weight;
    });
    return total > 0 ? holds / total : 0;
  });
}

ValueCounts LoopPoints::counts(const std::vector<Expr>& exprs, size_t most) const {
  thread_local Memory<ValueCounts> memory;
  KeyWriter writer(static_cast<int64_t>(exprs.size() * 256 + most));
  for (const Expr& e : exprs) writer.add(e);
  return memory.find(std::move(writer).finish(path_), [&] {
    std::map<std::vector<int64_t>, double> counts;
    auto last = counts.end();  // most points are like the one before
    Points(path_, middle_).for_each(exprs, 0, [&](const std::vector<int64_t>& values, double weight) {
      if (last == counts.end() || last->first != values) last = counts.emplace(values, 0).first;
      last->second += weight;
    });
    ValueCounts sorted(counts.begin(), counts.end());
    std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
    if (sorted.size() > most) {
      for (size_t i = most; i < sorted.size(); ++i) sorted[most - 1].second += sorted[i].second;
      sorted.resize(most);
    }
    return sorted;
  });
}

}  // namespace fettle
