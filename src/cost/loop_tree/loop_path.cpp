#include "cost/loop_tree/loop_path.h"

#include <algorithm>

#include "ir/visit.h"

namespace fettle {

namespace {

// f // d % m, f // d or f % m of a variable f: which digit it is.
struct Digit {
  const VarNode* fused = nullptr;
  int64_t low = 1, high = INT64_MAX;  // f % high // low
};

std::optional<Digit> as_digit(const Expr& e) {
  const auto divided_by = [](const Expr& x, BinaryOp op) -> const int64_t* {
    const auto* n = x.as<BinaryNode>();
    const int64_t* divisor = n && n->op == op ? as_int(n->b) : nullptr;
    return divisor && *divisor > 0 && *divisor < (int64_t{1} << 31) ? divisor : nullptr;
  };
  Digit digit;
  const Expr* rest = &e;
  if (const int64_t* m = divided_by(*rest, BinaryOp::kFloorMod)) {
    digit.high = *m;
    rest = &rest->as<BinaryNode>()->a;
  }
  if (const int64_t* d = divided_by(*rest, BinaryOp::kFloorDiv)) {
    digit.low = *d;
    if (digit.high != INT64_MAX) digit.high *= *d;
    rest = &rest->as<BinaryNode>()->a;
  }
  digit.fused = rest == &e ? nullptr : rest->as<VarNode>();
  return digit.fused ? std::optional(digit) : std::nullopt;
}

}  // namespace

void LoopPath::note_uses(const Stmt& body) {
  const auto note = [this](const Expr& e) {
    if (!e || as_int(e)) return;
    walk(e, [&](const Expr& x) {
      if (x.kind() == ExprKind::kAddress) return false;  // where, not how often
      const auto digit = as_digit(x);
      if (!digit) return true;
      std::vector<int64_t>& bounds = bounds_of_[digit->fused];
      for (const int64_t bound : {digit->low, digit->high})
        if (bound > 1 && bound < INT64_MAX) bounds.push_back(bound);
      return false;
    });
  };
  walk(body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) {
      note(loop->min);
      note(loop->extent);
    } else if (const auto* choice = s.as<IfNode>()) {
      note(choice->condition);
    } else if (const auto* bind = s.as<LetNode>()) {
      note(bind->value);
    } else if (const auto* call = s.as<CallFuncNode>()) {
      for (const Expr& arg : call->args) note(arg);
    }
    return true;
  });
}

/// Puts the digits of the loops on the path in the place of quotients and remainders.
class LoopPath::DigitWriter : public Mutator {
 public:
  explicit DigitWriter(const std::vector<Digits>& fused) : fused_(fused) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    if (!e || e.kind() == ExprKind::kIntImm) return e;
    Digit digit;
    if (const auto* var = e.as<VarNode>()) {
      digit.fused = var;
    } else if (const auto found = as_digit(e)) {
      digit = *found;
    }
    for (size_t i = fused_.size(); digit.fused && i-- > 0;)
      if (fused_[i].fused == digit.fused)
        if (Expr written = write(digit, fused_[i])) return written;
    return e.kind() == ExprKind::kVar ? e : Mutator::rewrite(e);
  }

 private:
  // Null where it begins or ends inside a digit.
  static Expr write(const Digit& digit, const Digits& loop) {
    const int64_t extent = loop.bounds.back();
    const int64_t low = std::min(digit.low, extent), high = std::min(digit.high, extent);
    if (!std::ranges::binary_search(loop.bounds, low) || !std::ranges::binary_search(loop.bounds, high)) return nullptr;
    Expr sum = 0;
    for (size_t k = 0; k < loop.digits.size(); ++k)
      if (loop.bounds[k] >= low && loop.bounds[k + 1] <= high)
        sum = Expr(loop.digits[k]) * (loop.bounds[k] / low) + sum;
    return sum;
  }

  const std::vector<Digits>& fused_;
};

Expr LoopPath::in_digits(const Expr& e) const {
  if (!e || fused_.empty() || as_int(e)) return e;
  return DigitWriter(fused_).rewrite(e);
}

void LoopPath::push_loop(const VarNode* var, const Expr& min, const Expr& extent) {
  if (push_digits(var, min, extent)) return;
  push({var, in_digits(min), in_digits(extent), nullptr, false});
}

void LoopPath::push_let(const VarNode* var, const Expr& value) {
  push({var, nullptr, nullptr, in_digits(value), false});
}

void LoopPath::push_condition(const Expr& condition, bool negated) {
  push({nullptr, nullptr, nullptr, in_digits(condition), negated});
}

bool LoopPath::push_digits(const VarNode* var, const Expr& min, const Expr& extent) {
  const auto noted = bounds_of_.find(var);
  const int64_t* n = as_int(extent);
  if (noted == bounds_of_.end() || !n || !is_zero(min) || extent.dtype() != kI64) return false;
  Digits loop{var, {1}, {}};
  for (const int64_t bound : noted->second)
    if (bound < *n) loop.bounds.push_back(bound);
  loop.bounds.push_back(*n);
  std::ranges::sort(loop.bounds);
  loop.bounds.erase(std::unique(loop.bounds.begin(), loop.bounds.end()), loop.bounds.end());
  if (loop.bounds.size() < 3) return false;
  for (size_t k = 0; k + 1 < loop.bounds.size(); ++k)
    if (loop.bounds[k + 1] % loop.bounds[k] != 0) return false;
  for (size_t k = 0; k + 1 < loop.bounds.size(); ++k) loop.digits.push_back(make_var(var->name));
  for (size_t k = loop.digits.size(); k-- > 0;)
    push({loop.digits[k].get(), 0, loop.bounds[k + 1] / loop.bounds[k], nullptr, false});
  pushes_.resize(pushes_.size() - loop.digits.size());
  pushes_.push_back(loop.digits.size());
  fused_.push_back(std::move(loop));
  return true;
}

void LoopPath::push(LoopBinding binding) {
  Uses uses;
  for (const Expr* e : {&binding.min, &binding.extent, &binding.value}) add_uses(*e, uses);
  bindings_.push_back(std::move(binding));
  uses_.push_back(std::move(uses));
  reached_.emplace_back();
  pushes_.push_back(1);
}

void LoopPath::pop(size_t count) {
  for (; count > 0; --count) {
    const size_t left = bindings_.size() - pushes_.back();
    if (!fused_.empty() && bindings_.back().var == fused_.back().digits.front().get()) fused_.pop_back();
    pushes_.pop_back();
    bindings_.resize(left);
    uses_.resize(left);
    reached_.resize(left);
  }
}

void LoopPath::add_uses(const Expr& e, Uses& uses) const {
  if (!e || as_int(e)) return;
  walk(e, [&](const Expr& x) {
    if (const auto* var = x.as<VarNode>()) {
      const auto at = find(var, bindings_.size());
      if (at && std::find(uses.begin(), uses.end(), *at) == uses.end()) uses.push_back(*at);
    }
    return true;
  });
}

PathParts::PathParts(const LoopPath& path, size_t size, const std::vector<Expr>& exprs) : path_(path) {
  for (size_t i = 0; i < size; ++i) {
    parent_.push_back(i);
    needed_.push_back(!path[i].var || !path[i].value);  // of lets it shows
  }
  for (const Expr& e : exprs) {
    LoopPath::Uses& uses = expr_uses_.emplace_back();
    path.add_uses(e, uses);
    const size_t* first = nullptr;
    for (const size_t& used : uses) {
      needed_[used] = true;
      if (path[used].is_number()) continue;
      if (first) unite(*first, used);
      first = &used;
    }
  }
  // Innermost first: all uses of a let come before it.
  for (size_t i = size; i-- > 0;) {
    if (!needed_[i]) continue;
    for (const size_t used : path.uses_[i]) {
      needed_[used] = true;
      if (!path[used].is_number()) unite(i, used);
    }
  }
}

std::optional<size_t> PathParts::part_of_expr(size_t e) const {
  for (const size_t used : expr_uses_[e])
    if (!path_[used].is_number()) return root(used);
  return std::nullopt;
}

void PathParts::unite_exprs() {
  std::optional<size_t> first;
  for (size_t e = 0; e < expr_uses_.size(); ++e) {
    const auto part = part_of_expr(e);
    if (part && first) unite(*first, *part);
    if (part) first = part;
  }
}

std::vector<size_t> PathParts::bindings_of(std::optional<size_t> part, const std::vector<size_t>& exprs) const {
  SmallVector<char, 48> taken;
  for (size_t i = 0; i < parent_.size(); ++i)
    taken.push_back(part && needed_[i] && !path_[i].is_number() && root(i) == *part);
  const auto take_numbers = [&](const LoopPath::Uses& uses) {
    for (const size_t used : uses) taken[used] |= path_[used].is_number();
  };
  for (const size_t e : exprs) take_numbers(expr_uses_[e]);
  for (size_t i = parent_.size(); i-- > 0;)
    if (taken[i]) take_numbers(path_.uses_[i]);
  std::vector<size_t> positions;
  for (size_t i = 0; i < taken.size(); ++i)
    if (taken[i]) positions.push_back(i);
  return positions;
}

}  // namespace fettle
