#pragma once
// The workings of Analyzer::simplify and can_prove; not for other rooms.

#include <vector>

#include "arith/analyzer.h"

namespace fettle {

class Simplifier {
 public:
  explicit Simplifier(Analyzer& analyzer) : a_(analyzer) {}

  /// Any expression, bottom-up; the result may be a new node even where nothing changed.
  Expr rewrite(const Expr& e);
  /// An i64 expression as a canonical form (terms unsorted).
  LinearForm linear(const Expr& e);
  /// Whether form >= 0 always holds, in at most `budget` steps.
  bool prove_nonnegative(const LinearForm& form, int budget);
  bool prove(const Expr& condition);

  // divide.cpp: floor division and remainder of canonical forms.
  LinearForm divide(LinearForm x, int64_t c);
  LinearForm modulo(LinearForm x, int64_t c);
  bool begins_period(const LinearForm& x, int64_t c, LinearForm& begin);
  LinearForm divide(const LinearForm& x, const LinearForm& d);
  LinearForm modulo(const LinearForm& x, const LinearForm& d);
  /// x = d * quotient + rest, as far as terms of x have d as a factor; whether 0 <= rest < d.
  bool split_by(const LinearForm& x, const LinearForm& d, LinearForm& quotient, LinearForm& rest);
  /// (x / c) * c + x % c → x and its kin.
  void recombine(LinearForm& form);

 private:
  void accumulate(const Expr& e, int64_t scale, LinearForm& out);
  void accumulate_binary(const Expr& e, int64_t scale, LinearForm& out);
  LinearForm multiply(const LinearForm& x, const LinearForm& y);
  LinearForm min_or_max(bool is_min, LinearForm x, LinearForm y);
  LinearForm select_form(const Expr& e);
  std::optional<Interval> plain_range(const VarNode* var) const;
  Expr rewrite_children(const Expr& e);
  Expr rewrite_bool(const Expr& e);
  Expr rewrite_bool_binary(const BinaryNode& n, const Expr& e);
  Expr compare(BinaryOp op, const LinearForm& difference);
  Expr product(const Expr& x, const Expr& y);
  /// A condition in canonical form holds until the scope ends.
  Analyzer::Scope assume(const Expr& canonical) {
    Analyzer::Scope scope = a_.enter();
    a_.add_facts(canonical, true);
    return scope;
  }
  bool always_nonnegative(const LinearForm& form);  // bounds, then a few steps where facts are symbolic

  // prove.cpp
  bool bounds_are_exact(const LinearForm& form) const;
  bool prove_step(const LinearForm& form, int depth);
  LinearForm replaced(const LinearForm& form, const Expr& term, const LinearForm& value);
  bool prove_by_constraints(const LinearForm& form, int depth);
  bool prove_by_bounds_of_variables(const LinearForm& form, int depth);
  bool prove_by_cases(const LinearForm& form, int depth, bool* split);
  bool prove_by_division_bounds(const LinearForm& form, int depth);

  struct Remembered {
    Expr e;
    uint64_t epoch;
    LinearForm form;
  };

  Analyzer& a_;
  int steps_left_ = 0;            // of the proof at hand
  int64_t work_left_ = 0;         // likewise: terms that are compared with terms
  std::vector<Remembered> memo_;  // divisions, min, max of shared nodes
};

/// The negation of a comparison, and, or or, with none at the top; null for other conditions, and for < and <= of
/// floats, where !(a < b) is not b <= a.
Expr negation_of(const BinaryNode& condition);
/// A deterministic order of terms: variables by rank, then by name; other expressions by shape.
int compare_terms(const Analyzer& analyzer, const Expr& a, const Expr& b);
/// The factors of a product of opaque terms, in order.
void collect_factors(const Expr& e, std::vector<Expr>& out);
/// `form` as Analyzer::to_expr gives it; `e` itself where that is what it says already.
Expr to_expr_like(const Analyzer& analyzer, LinearForm form, const Expr& e);
/// x without the terms that y has with the same coefficient; those are moved to `common`.
void extract_common(LinearForm& x, LinearForm& y, LinearForm& common);

}  // namespace fettle
