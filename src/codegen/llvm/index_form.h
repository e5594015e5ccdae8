#pragma once
// Indices as polynomials: what is constant, what the loops change, what a run-time stride multiplies.

#include <map>
#include <unordered_map>
#include <vector>

#include "ir/compare.h"
#include "ir/expr.h"

namespace fettle::llvm_backend {

/// A product of indeterminates, sorted; the same one may occur twice.
using Monomial = std::vector<int>;

/// constant + Σ coefficient · monomial, in 64-bit two's complement. No coefficient is zero.
struct IndexForm {
  int64_t constant = 0;
  std::map<Monomial, int64_t> terms;

  bool is_constant() const { return terms.empty(); }
  void add(const IndexForm& other, int64_t factor = 1);
  void add_term(const Monomial& monomial, int64_t coefficient);
  friend bool operator==(const IndexForm&, const IndexForm&) = default;
  friend auto operator<=>(const IndexForm&, const IndexForm&) = default;
};

/// Gives indeterminates their numbers: variables, and expressions that are no polynomials, equal ones the same.
class IndexForms {
 public:
  /// The form of an i64 scalar.
  IndexForm form(const Expr& e);
  /// From now on `var` stands for `value` (a Let).
  void define(const VarNode* var, IndexForm value) { defined_[var] = std::move(value); }
  void forget(const VarNode* var) { defined_.erase(var); }

  const Expr& expression(int indeterminate) const { return expressions_[static_cast<size_t>(indeterminate)]; }

 private:
  int intern(const Expr& e);
  IndexForm product(const IndexForm& a, const IndexForm& b, const Expr& whole);

  std::vector<Expr> expressions_;
  std::unordered_map<Expr, int, ExprHash, ExprEqual> numbers_;
  std::unordered_map<const VarNode*, IndexForm> defined_;
};

}  // namespace fettle::llvm_backend
