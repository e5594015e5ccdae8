#pragma once
// Expressions read as numbers in mixed radix; not for other rooms (see affine_map.h).

#include <optional>
#include <string>
#include <vector>

#include "arith/affine_map.h"

namespace fettle {

/// A part of a source: (source / lower) % extent, the modulus left out where `top`.
struct Digit {
  int source = 0;
  int64_t lower = 1;
  Expr extent;
  bool top = true;
};

struct SumTerm {
  int64_t scale = 1;
  Digit digit;
};

/// base + sum of scale * digit; base is free of the loops.
struct DigitSum {
  LinearForm base;
  std::vector<SumTerm> terms;  // by rising scale, once sorted
};

/// What a sum's terms reach: [low, low + extent), relative to its base.
struct SumRange {
  Expr low = 0, extent = 1;
  bool dense = true;      // every value
  bool injective = true;  // no value twice
};

/// A loop variable, or a sum that is used like one.
struct Source {
  Expr key;
  Expr extent;
  bool injective = true;
  std::vector<SumTerm> parts;  // of a composite: what it is made of, by rising scale; empty for a loop
};

/// One condition of the predicate, over loops: sum < bound, or sum >= bound.
struct RadixCondition {
  LinearForm room;  // the condition is room >= 0
  DigitSum sum;     // scales > 0
  Expr bound;
  bool upper = true;
  bool comparison = false;
  bool parsed = false;
  bool used = false;
};

class MixedRadix {
 public:
  MixedRadix(const std::vector<VarDomain>& loops, Analyzer& analyzer);
  /// The conjuncts of a simplified predicate.
  void set_predicate(const Expr& predicate);

  /// Reads a simplified expression; nothing if it is not quasi-affine.
  std::optional<DigitSum> parse(const Expr& e);
  /// Replaces runs of terms that a condition bounds, sorts, and finds the range. Nothing if extents do not compare.
  std::optional<SumRange> range_of(DigitSum& sum, bool whole_binding);

  const std::vector<Source>& sources() const { return sources_; }
  const std::vector<RadixCondition>& conditions() const { return conditions_; }
  bool uses_loops(const Expr& e) const;

 private:
  void add_conjuncts(const Expr& predicate);
  std::optional<DigitSum> parse_form(LinearForm form);
  std::optional<SumTerm> parse_term(const Expr& e, int64_t coeff);
  std::optional<Digit> part_of(const Expr& e, int64_t lower, int64_t modulus);
  bool take_balance(LinearForm& form, DigitSum& sum);
  bool take_open_balance(LinearForm& form, DigitSum& sum);
  bool take_shift(LinearForm& form, DigitSum& sum);
  std::optional<SumRange> dense_range(DigitSum& sum);
  void add_two_part(DigitSum& sum, int64_t k, Source source, const DigitSum& high, int64_t scale);
  std::optional<int> composite(const Expr& key, DigitSum sum);
  int add_source(Source source);
  bool collapse(DigitSum& sum, RadixCondition& condition);
  std::optional<SumRange> plain_range(const DigitSum& sum);

  const std::vector<VarDomain>& loops_;
  Analyzer& a_;
  std::vector<Source> sources_;
  std::vector<RadixCondition> conditions_;
};

}  // namespace fettle
