#include "cost/loop_points.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/hash.h"
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

class Points {
 public:
  Points(const std::vector<LoopBinding>& path, const IntEnv& middle) : path_(path), middle_(middle) {}

  /// Calls fn(env, weight) for the points of the loops around that `exprs` and the conditions on the way depend on.
  template <class Fn>
  void for_each(const std::vector<Expr>& exprs, const Fn& fn) {
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
    env_.reserve(path_.size());
    visit(0, points, 1.0, fn);
  }

 private:
  template <class Fn>
  void visit(size_t at, double points, double weight, const Fn& fn) {
    if (at == path_.size()) return fn(env_, weight);
    const LoopBinding& b = path_[at];
    if (!b.var) {
      if ((estimate_int(b.value, env_, 1) != 0) != b.negated) visit(at + 1, points, weight, fn);
      return;
    }
    if (b.value) {
      env_.push(b.var, turns_[at] ? estimate_int(b.value, env_) : 0);
      visit(at + 1, points, weight, fn);
      env_.pop();
      return;
    }
    const int64_t extent = estimate_int(b.extent, env_, 1);
    if (extent <= 0) return;
    const int64_t min = estimate_int(b.min, env_);
    if (!turns_[at]) {
      env_.push(b.var, min);
      visit(at + 1, points, weight * static_cast<double>(extent), fn);
      env_.pop();
      return;
    }
    // Beyond the limit: the first, the last and some in between.
    int64_t step = 1;
    if (points > kMostPoints && extent > 4) {
      step = static_cast<int64_t>(std::min(points / kMostPoints + 1, static_cast<double>(extent) / 4));
      points /= static_cast<double>(step);
    }
    for (int64_t i = 0; i < extent;) {
      int64_t covers = 1;
      if (i > 0 && i < extent - 1) covers = std::min(step, extent - 1 - i);
      env_.push(b.var, min + i + (covers - 1) / 2);
      visit(at + 1, points, weight * static_cast<double>(covers), fn);
      env_.pop();
      i += covers;
    }
  }

  const std::vector<LoopBinding>& path_;
  const IntEnv& middle_;
  std::vector<char> turns_;
  IntEnv env_;
};

}  // namespace

double LoopPoints::average_extent(const Expr& extent) const {
  thread_local Memory<double> memory;
  KeyWriter writer(0);
  writer.add(extent);
  return memory.find(std::move(writer).finish(path_), [&] {
    double iterations = 0, total = 0;
    Points(path_, middle_).for_each({extent}, [&](const IntEnv& env, double weight) {
      iterations += weight * static_cast<double>(std::max<int64_t>(0, estimate_int(extent, env, 1)));
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
    Points(path_, middle_).for_each({condition}, [&](const IntEnv& env, double weight) {
      if (estimate_int(condition, env, 1)) holds += weight;
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
    std::vector<int64_t> values(exprs.size());
    auto last = counts.end();  // most points are like the one before
    Points(path_, middle_).for_each(exprs, [&](const IntEnv& env, double weight) {
      for (size_t i = 0; i < exprs.size(); ++i) values[i] = estimate_int(exprs[i], env);
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
