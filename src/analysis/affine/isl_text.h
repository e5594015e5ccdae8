#pragma once
// Quasi-affine expressions in isl's notation.

#include <optional>
#include <string>

#include "ir/visit.h"

namespace fettle {

/// Writes expressions of known variables. What is not quasi-affine has no text.
class IslText {
 public:
  /// From here on, `text` stands for the variable.
  void name(const VarNode* var, std::string text) { names_[var] = std::move(text); }
  bool knows(const VarNode* var) const { return names_.find(var) != names_.end(); }

  /// Sums, products and quotients by constants, remainders, minima and maxima of i64.
  ///   i * 2 + j // 8   →   ((2 * l0) + floor(l1 / 8))
  std::optional<std::string> expression(const Expr& e) const;
  /// Comparisons of these, joined by and, or, not.
  std::optional<std::string> condition(const Expr& e) const;

 private:
  PointerMap<const VarNode*, std::string> names_;
};

}  // namespace fettle
