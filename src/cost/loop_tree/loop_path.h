#pragma once
// The loops, lets and conditions around a statement, and which of them must be counted together.

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/small_vector.h"
#include "ir/stmt.h"

namespace fettle {

/// What binds a variable on the way to a statement, or what is asked there.
struct LoopBinding {
  const VarNode* var = nullptr;  // null: a condition
  Expr min, extent;              // of a loop
  Expr value;                    // of a let; of a condition
  bool negated = false;

  bool is_loop() const { return var && !value; }
  bool is_condition() const { return !var; }
  /// A let of a number: what reads it depends on nothing.
  bool is_number() const { return var && value && as_int(value); }
};
using LoopBindings = std::vector<LoopBinding>;

/// A stack of loops, lets and conditions, outermost first.
///
/// A fused loop, of which `body` (note_uses) reads quotients and remainders alone, is bound as the loops of its digits:
/// what reads one of them does not depend on the others.
///   for f in 1280: if f // 160 % 4 * 7 < 20: g(f % 40)
///   →   for f3 in 2: for f2 in 4: for f1 in 4: for f0 in 40: if f2 * 7 < 20: g(f0)
class LoopPath {
 public:
  /// Of the statement whose loops are pushed; without it loops stay whole.
  void note_uses(const Stmt& body);

  void push_loop(const VarNode* var, const Expr& min, const Expr& extent);
  void push_let(const VarNode* var, const Expr& value);
  void push_condition(const Expr& condition, bool negated = false);
  /// What was pushed last.
  void pop(size_t count = 1);

  /// In terms of the bindings: digits for fused loops.
  Expr in_digits(const Expr& e) const;

  size_t size() const { return bindings_.size(); }
  const LoopBinding& operator[](size_t i) const { return bindings_[i]; }
  /// The position of the innermost binding of `var` among the first `before`; nothing where it is not bound.
  std::optional<size_t> find(const VarNode* var, size_t before) const {
    for (size_t i = before; i-- > 0;)
      if (bindings_[i].var == var) return i;
    return std::nullopt;
  }

 private:
  friend class PathParts;
  friend class LoopPoints;
  using Uses = SmallVector<size_t, 6>;  // positions

  struct Digits {
    const VarNode* fused;
    std::vector<int64_t> bounds;  // 1, … the extent: each divides the next
    std::vector<Var> digits;      // between them, innermost first
  };
  class DigitWriter;

  void push(LoopBinding binding);
  bool push_digits(const VarNode* var, const Expr& min, const Expr& extent);
  void add_uses(const Expr& e, Uses& uses) const;

  std::unordered_map<const VarNode*, std::vector<int64_t>> bounds_of_;  // ends of the digits that are read
  std::vector<Digits> fused_;                                           // of the loops on the path
  std::vector<size_t> pushes_;                                          // how many bindings each has made

  LoopBindings bindings_;
  std::vector<Uses> uses_;                            // of each binding, by its expressions
  mutable std::vector<std::optional<bool>> reached_;  // whether the first so many have a point
};

/// The bindings of a path in parts that share no variable. A number that is counted of one part, relative to how many
/// points that part has, is the same whatever the others are.
///   for i in 20: for j in 30: for k in 40: if i * 2 + k < 70: if j < 29:
///   →   {i, k, the first condition}, {j, the second}
class PathParts {
 public:
  /// Of the first `size` bindings, and expressions inside them.
  PathParts(const LoopPath& path, size_t size, const std::vector<Expr>& exprs);

  /// The part of the e-th expression; nothing where it is the same at all points.
  std::optional<size_t> part_of_expr(size_t e) const;
  /// The part of a binding.
  size_t part_of(size_t i) const { return root(i); }
  void unite_exprs();
  /// Positions of the bindings of a part, ascending, with those of the numbers that it or `exprs` (positions there)
  /// read.
  std::vector<size_t> bindings_of(std::optional<size_t> part, const std::vector<size_t>& exprs) const;

 private:
  size_t root(size_t i) const {
    while (parent_[i] != i) i = parent_[i];
    return i;
  }
  void unite(size_t a, size_t b) {
    a = root(a), b = root(b);
    if (a != b) parent_[std::max(a, b)] = std::min(a, b);
  }

  const LoopPath& path_;
  SmallVector<size_t, 48> parent_;
  SmallVector<char, 48> needed_;
  SmallVector<LoopPath::Uses, 4> expr_uses_;
};

}  // namespace fettle
