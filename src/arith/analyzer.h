#pragma once
// Analyzer: what is known of variables, and what follows from it. No solver: intervals, congruences, linear forms and
// a few steps of substitution, so that an index expression costs microseconds.

#include <optional>
#include <vector>

#include "arith/interval.h"
#include "arith/linear.h"
#include "ir/expr.h"
#include "ir/func.h"

namespace fettle {

/// Facts come from bind and assume; everything asked holds wherever these facts hold. Inside a loop that cannot run
/// (extent <= 0) anything may be "proven".
class Analyzer {
 public:
  Analyzer() = default;

  // --- facts ---
  /// var in [min, min + extent). Both may be expressions in variables bound before (also with min, max, select).
  void bind(const Var& var, const Expr& min, const Expr& extent);
  /// var == value; simplify puts the value in its place.
  void bind(const Var& var, const Expr& value);
  /// var in `range` and congruent to `modular`.
  void bind_range(const Var& var, Interval range, Modular modular = {});
  /// Integer parameters with their assumptions.
  void bind_params(const Func& func);

  /// Undoes, when it ends, what was bound and assumed since it began. Scopes end in reverse order.
  class Scope {
   public:
    explicit Scope(Analyzer* analyzer);
    Scope(Scope&& other) noexcept;
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope();

   private:
    Analyzer* analyzer_;
    size_t vars_, changes_, constraints_, truths_;
  };
  [[nodiscard]] Scope enter() { return Scope(this); }
  /// `condition` holds until the scope ends. Null counts as true. Conditions that are no comparisons of integers are
  /// known again only in the form that simplify gives them.
  [[nodiscard]] Scope assume(const Expr& condition);
  /// As assume, until the enclosing scope ends.
  void add_assumption(const Expr& condition);

  // --- questions ---
  /// Bounds of an i64 expression.
  Interval int_bounds(const Expr& e);
  Interval int_bounds(const LinearForm& form) const;
  Modular modular(const Expr& e);
  Modular modular(const LinearForm& form) const;

  /// An expression equal to `e` in canonical form. Integers: sums of coefficient * term, larger coefficients first,
  /// then variables in the order they were bound; divisions, remainders, min, max and comparisons resolved as far as
  /// bounds and divisibility allow. Bools: comparisons with like terms on one side, and / or without redundant parts.
  /// Other types: integer and bool parts below are simplified. Unchanged expressions keep their identity.
  Expr simplify(const Expr& e);
  /// The canonical linear form of an i64 expression.
  LinearForm linear(const Expr& e);
  /// form as a canonical expression (terms sorted).
  Expr to_expr(LinearForm form) const;

  /// True only if the bool expression holds in every case.
  bool can_prove(const Expr& condition);
  bool can_prove_equal(const Expr& a, const Expr& b);
  /// form >= 0 in every case.
  bool can_prove_nonnegative(const LinearForm& form);
  /// The value, if `e` can have only one.
  std::optional<int64_t> constant_value(const Expr& e);

 private:
  friend class Simplifier;
  friend int compare_terms(const Analyzer&, const Expr&, const Expr&);
  /// What other variables say about one.
  struct SymbolicFacts : RefCounted {
    bool has_value = false;
    LinearForm value;
    std::vector<LinearForm> lower, upper;  // further bounds, in variables bound before
    bool is_bounded() const { return !lower.empty() || !upper.empty(); }
  };
  struct VarFacts {
    Var var;
    Interval range;
    Modular mod;
    Ref<const SymbolicFacts> symbolic = nullptr;  // null: nothing
  };
  struct Change {
    size_t index;
    VarFacts before;
  };

  int rank(const VarNode* var) const;  // index in vars_, or -1
  void set_facts(VarFacts facts);
  void constrain(const LinearForm& nonnegative);
  void add_facts(const Expr& condition, bool simplified);
  void tighten(const VarNode* var, Interval range);
  Interval plain_bounds(const LinearForm& form) const;
  Interval term_bounds(const Expr& term) const;
  Modular term_modular(const Expr& term) const;

  SmallVector<const VarNode*, 12> keys_;  // of vars_, for a quick search
  SmallVector<VarFacts, 12> vars_;
  SmallVector<Change, 4> changes_;          // earlier facts of variables that a scope changed
  SmallVector<LinearForm, 2> constraints_;  // each >= 0
  std::vector<Expr> truths_;                // opaque conditions that hold
  uint64_t epoch_ = 0;                      // counts changes of the facts
  bool proving_ = false;                    // no proof is begun within a proof
  mutable bool within_constraint_ = false;  // constraints are not applied to what remains of applying one
};

/// simplify with no facts but the constants in `e`.
Expr simplify(const Expr& e);

}  // namespace fettle
