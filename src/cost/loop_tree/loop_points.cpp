#include "cost/loop_tree/loop_points.h"

#include <algorithm>
#include <unordered_map>

#include "base/hash.h"
#include "cost/loop_tree/point_visits.h"

namespace fettle {
namespace {

constexpr size_t kMostRemembered = 2048;
constexpr double kMostCombinations = 4096;

using Key = std::vector<int64_t>;
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t h = key.size();
    for (const int64_t part : key) h = hash_combine(h, static_cast<uint64_t>(part));
    return h;
  }
};

// A question with all that its answer depends on; variables by where they are bound, numbers as themselves. Equal keys
// are equal questions.
class KeyWriter {
 public:
  KeyWriter(const LoopPath& path, int64_t kind) : path_(path) {
    key_.reserve(96);
    key_.push_back(kind);
  }

  void add(int64_t number) { key_.push_back(number); }
  /// As it reads inside the first `depth` bindings.
  void add(const Expr& e, size_t depth) {
    if (!e) return key_.push_back(-1);
    switch (e.kind()) {
      case ExprKind::kIntImm:
        return add_number(e.as<IntImmNode>()->value);
      case ExprKind::kVar: {
        const auto at = path_.find(e.as<VarNode>(), depth);
        if (!at) return key_.push_back(-4);
        if (path_[*at].is_number()) return add_number(*as_int(path_[*at].value));
        key_.push_back(static_cast<int64_t>(ExprKind::kVar));
        return key_.push_back(number(*at));
      }
      default:
        break;
    }
    key_.push_back(static_cast<int64_t>(e.kind()));
    switch (e.kind()) {
      case ExprKind::kBinary: {
        const auto* n = e.as<BinaryNode>();
        key_.push_back(static_cast<int64_t>(n->op));
        add_type(n->a);
        add(n->a, depth);
        return add(n->b, depth);
      }
      case ExprKind::kNot:
        return add(e.as<NotNode>()->a, depth);
      case ExprKind::kSelect: {
        const auto* n = e.as<SelectNode>();
        add(n->condition, depth);
        add(n->if_true, depth);
        return add(n->if_false, depth);
      }
      case ExprKind::kCast:
        add_type(e);
        add_type(e.as<CastNode>()->a);
        return add(e.as<CastNode>()->a, depth);
      case ExprKind::kRamp:
        return add(e.as<RampNode>()->base, depth);
      case ExprKind::kBroadcast:
        return add(e.as<BroadcastNode>()->value, depth);
      case ExprKind::kCall: {
        const auto* n = e.as<CallNode>();
        key_.push_back(n->name == "likely");
        if (n->name == "likely" && n->args.size() == 1) add(n->args[0], depth);
        return;
      }
      default:  // without a value
        return;
    }
  }

  // Innermost first, so that all uses of a variable come before its binding.
  Key finish(const std::vector<size_t>& bindings) && {
    for (size_t k = bindings.size(); k-- > 0;) {
      const size_t i = bindings[k];
      const LoopBinding& b = path_[i];
      if (b.is_condition()) {
        key_.push_back(b.negated ? -3 : -2);
        add(b.value, i);
        continue;
      }
      if (b.is_number()) continue;
      const auto used = std::ranges::find(used_, i);
      key_.push_back(used == used_.end() ? -1 : used - used_.begin());
      add(b.value, i);
      if (b.value) continue;
      add(b.min, i);
      add(b.extent, i);
    }
    return std::move(key_);
  }

 private:
  void add_number(int64_t value) {
    key_.push_back(static_cast<int64_t>(ExprKind::kIntImm));
    key_.push_back(value);
  }
  int64_t number(size_t binding) {
    const auto known = std::ranges::find(used_, binding);
    if (known != used_.end()) return known - used_.begin();
    used_.push_back(binding);
    return static_cast<int64_t>(used_.size()) - 1;
  }
  void add_type(const Expr& e) {
    const DType type = e.dtype();
    key_.push_back(static_cast<int64_t>(type.code) * 256 + type.bits);
  }

  const LoopPath& path_;
  Key key_;
  std::vector<size_t> used_;
};

template <class Answer>
struct Memory {
  std::unordered_map<Key, Answer, KeyHash> answers;
  template <class Ask>
  const Answer& find(const Key& key, const Ask& ask) {
    const auto known = answers.find(key);
    if (known != answers.end()) return known->second;
    if (answers.size() >= kMostRemembered) answers.clear();
    return answers.emplace(key, ask()).first->second;  // the copy has no room to grow
  }
};

// The bindings that an answer is about, by themselves.
LoopBindings only(const LoopPath& path, const std::vector<size_t>& positions) {
  LoopBindings bindings;
  bindings.reserve(positions.size());
  for (const size_t i : positions) bindings.push_back(path[i]);
  return bindings;
}

// Values of several expressions, as often as they occur: rows of one length in one piece of memory.
class ValueRows {
 public:
  explicit ValueRows(size_t width) : width_(width) {}
  size_t size() const { return counts_.size(); }

  void reserve(size_t rows) {
    values_.reserve(rows * width_);
    counts_.reserve(rows);
  }

  void add(const int64_t* values, double count) {
    // Most points are like the one before.
    if (!counts_.empty() && std::equal(values, values + width_, row(size() - 1))) {
      counts_.back() += count;
      return;
    }
    values_.insert(values_.end(), values, values + width_);
    counts_.push_back(count);
  }

  /// Equal rows as one, ascending. Counting up or down one variable leaves them in order.
  ValueRows merged() && {
    const auto each_next = [this](bool descending) {
      for (size_t i = 1; i < size(); ++i)
        if (!(descending ? is_before(i, i - 1) : is_before(i - 1, i))) return false;
      return true;
    };
    if (each_next(false)) return std::move(*this);
    ValueRows made(width_);
    made.reserve(size());
    if (each_next(true)) {
      for (size_t i = size(); i-- > 0;) made.add(row(i), counts_[i]);
      return made;
    }
    std::vector<size_t> order = all_rows();
    std::sort(order.begin(), order.end(), [this](size_t a, size_t b) { return is_before(a, b); });
    for (const size_t i : order) made.add(row(i), counts_[i]);
    return made;
  }

  /// Every row with every one of `other`, whose values take the places `at`.
  ValueRows combined_with(const ValueRows& other, const std::vector<size_t>& at) const {
    ValueRows made(width_);
    std::vector<int64_t> values(width_);
    for (size_t i = 0; i < size(); ++i) {
      std::copy_n(row(i), width_, values.begin());
      for (size_t j = 0; j < other.size(); ++j) {
        for (size_t k = 0; k < at.size(); ++k) values[at[k]] = other.row(j)[k];
        made.add(values.data(), counts_[i] * other.counts_[j]);
      }
    }
    return made;
  }

  /// What is beyond `most` counts as the last of them.
  ValueCounts most_frequent(size_t most) const {
    std::vector<size_t> order = all_rows();
    const size_t kept = std::min(most, order.size());
    std::partial_sort(
        order.begin(), order.begin() + static_cast<ptrdiff_t>(kept), order.end(),
        [this](size_t a, size_t b) { return counts_[a] != counts_[b] ? counts_[a] > counts_[b] : is_before(a, b); });
    ValueCounts made;
    for (size_t n = 0; n < order.size(); ++n) {
      const size_t i = order[n];
      if (n < kept) {
        made.emplace_back(std::vector<int64_t>(row(i), row(i) + width_), counts_[i]);
      } else {
        made.back().second += counts_[i];
      }
    }
    return made;
  }

 private:
  const int64_t* row(size_t i) const { return values_.data() + i * width_; }
  bool is_before(size_t a, size_t b) const {
    return std::lexicographical_compare(row(a), row(a) + width_, row(b), row(b) + width_);
  }
  std::vector<size_t> all_rows() const {
    std::vector<size_t> rows(size());
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    return rows;
  }

  size_t width_;
  std::vector<int64_t> values_;
  std::vector<double> counts_;
};

// Expressions that share a part, and what they depend on.
struct Group {
  std::vector<size_t> exprs, bindings;
};

std::vector<Group> groups_of(const PathParts& parts, size_t exprs) {
  std::vector<Group> groups;
  std::vector<char> done(exprs, 0);
  for (size_t e = 0; e < exprs; ++e) {
    if (done[e]) continue;
    Group& group = groups.emplace_back();
    const auto part = parts.part_of_expr(e);
    for (size_t other = e; other < exprs; ++other)
      if (other == e || (part && parts.part_of_expr(other) == part)) {
        group.exprs.push_back(other);
        done[other] = true;
      }
    group.bindings = parts.bindings_of(part, group.exprs);
  }
  return groups;
}

// Groups are independent: each combination of their values occurs as often as their counts multiplied. Nothing where
// that are too many.
std::optional<ValueRows> combined_rows(const LoopPath& path, const IntEnv& middle, const std::vector<Group>& groups,
                                       const std::vector<Expr>& exprs) {
  ValueRows all(exprs.size());
  all.add(std::vector<int64_t>(exprs.size()).data(), 1);
  for (const Group& group : groups) {
    ValueRows own(group.exprs.size());
    std::vector<Expr> asked;
    for (const size_t e : group.exprs) asked.push_back(exprs[e]);
    const LoopBindings bindings = only(path, group.bindings);
    Points(bindings, middle).for_each(asked, 0, [&](const std::vector<int64_t>& values, double weight) {
      own.add(values.data(), weight);
      return true;
    });
    own = std::move(own).merged();
    if (groups.size() == 1) return own;
    if (all.size() > 1 && own.size() > 1 &&
        static_cast<double>(all.size()) * static_cast<double>(own.size()) > kMostCombinations)
      return std::nullopt;
    all = all.combined_with(own, group.exprs);
  }
  return all;
}

}  // namespace

bool LoopPoints::is_reached(size_t size) const {
  if (size == 0) return true;
  std::optional<bool>& known = path_.reached_[size - 1];
  if (!known) known = is_reached(size - 1) && has_point(size);
  return *known;
}

// Given that the bindings before the last of the first `size` have one: of its part alone.
bool LoopPoints::has_point(size_t size) const {
  thread_local Memory<bool> memory;
  const LoopBinding& last = path_[size - 1];
  if (last.var && last.value) return true;
  if (const int64_t* extent = last.is_loop() ? as_int(last.extent) : nullptr) return *extent > 0;
  const PathParts parts(path_, size, {});
  const std::vector<size_t> bindings = parts.bindings_of(parts.part_of(size - 1), {});
  return memory.find(KeyWriter(path_, 0).finish(bindings), [&] {
    bool found = false;
    const LoopBindings own = only(path_, bindings);
    Points(own, middle_).for_each({}, 1, [&](const std::vector<int64_t>&, double) {
      found = true;
      return false;
    });
    return found;
  });
}

// What is the same at all points, in terms of the bindings.
std::optional<int64_t> LoopPoints::same_everywhere(const Expr& e, int64_t unknown) const {
  if (const int64_t* number = as_int(e)) return *number;
  LoopPath::Uses uses;
  path_.add_uses(e, uses);
  IntEnv numbers;
  for (const size_t used : uses) {
    if (!path_[used].is_number()) return std::nullopt;
    numbers.push(path_[used].var, *as_int(path_[used].value));
  }
  return estimate_int(e, numbers, unknown);
}

double LoopPoints::average(const Expr& asked, bool is_condition) const {
  thread_local Memory<double> memory;
  if (!is_reached(path_.size())) return 0;
  const Expr e = path_.in_digits(asked);
  if (const auto value = same_everywhere(e, 1))
    return is_condition ? *value != 0 : static_cast<double>(std::max<int64_t>(0, *value));
  const std::vector<Expr> exprs = {e};
  const PathParts parts(path_, path_.size(), exprs);
  const std::vector<size_t> bindings = parts.bindings_of(parts.part_of_expr(0), {0});
  KeyWriter writer(path_, is_condition);
  writer.add(e, path_.size());
  return memory.find(std::move(writer).finish(bindings), [&] {
    double sum = 0, total = 0;
    const LoopBindings own = only(path_, bindings);
    Points(own, middle_).for_each(exprs, 1, [&](const std::vector<int64_t>& values, double weight) {
      const int64_t value = is_condition ? values[0] != 0 : std::max<int64_t>(0, values[0]);
      sum += weight * static_cast<double>(value);
      total += weight;
      return true;
    });
    return total > 0 ? sum / total : 0;
  });
}

double LoopPoints::average_extent(const Expr& extent) const { return average(extent, false); }
double LoopPoints::share(const Expr& condition) const { return average(condition, true); }

ValueCounts LoopPoints::counts(const std::vector<Expr>& asked, size_t most) const {
  thread_local Memory<ValueCounts> memory;
  if (!is_reached(path_.size())) return {};
  std::vector<Expr> exprs;
  for (const Expr& e : asked) exprs.push_back(path_.in_digits(e));
  std::vector<int64_t> point;
  for (const Expr& e : exprs) {
    const auto value = same_everywhere(e, 0);
    if (!value) break;
    point.push_back(*value);
  }
  if (point.size() == exprs.size()) return {{std::move(point), 1}};
  PathParts parts(path_, path_.size(), exprs);
  std::vector<Group> groups = groups_of(parts, exprs.size());
  Key key = {static_cast<int64_t>(most)};
  for (const Group& group : groups) {
    KeyWriter writer(path_, static_cast<int64_t>(group.exprs.size()));
    for (const size_t e : group.exprs) {
      writer.add(static_cast<int64_t>(e));
      writer.add(exprs[e], path_.size());
    }
    const Key own = std::move(writer).finish(group.bindings);
    key.insert(key.end(), own.begin(), own.end());
  }
  return memory.find(key, [&] {
    std::optional<ValueRows> rows = combined_rows(path_, middle_, groups, exprs);
    if (!rows) {
      parts.unite_exprs();
      groups = groups_of(parts, exprs.size());
      rows = combined_rows(path_, middle_, groups, exprs);
    }
    return rows->most_frequent(most);
  });
}

}  // namespace fettle
