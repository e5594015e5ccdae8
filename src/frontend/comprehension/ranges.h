#pragma once
// The ranges that index variables run over, told by the tensors that they index.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/comprehension/syntax.h"
#include "graph/dim.h"

namespace fettle::comprehension {

/// constant + Σ coefficient * variable, over sizes: the variables are indices of a statement and of the loops around.
struct Affine {
  Dim constant = 0;
  std::map<std::string, Dim, std::less<>> terms = {};  // no coefficient is the number 0

  bool is_constant() const { return terms.empty(); }
  static Affine variable(const std::string& name) { return {0, {{name, 1}}}; }
};
Affine operator+(const Affine& a, const Affine& b);
Affine operator*(const Affine& a, const Dim& by);
inline Affine operator-(const Affine& a, const Affine& b) { return a + b * Dim(-1); }
std::string to_string(const Affine& a);

/// An integer of indices and sizes: what can be said of it before the program runs.
struct IndexForm {
  enum class Kind : uint8_t { kAffine, kFloorDiv, kFloorMod, kMin, kMax, kEither, kSum, kProduct, kData };
  Kind kind = Kind::kData;
  Affine affine = {};                                         // kAffine
  std::shared_ptr<const IndexForm> a = nullptr, b = nullptr;  // kFloorDiv, kFloorMod: by b, which is constant
};
using Form = std::shared_ptr<const IndexForm>;
Form affine_form(Affine affine);

/// [begin, end): of a statement's index, over sizes; of a loop, also over the loops around.
struct IndexRange {
  Affine begin, end;
};
/// By name, in the order in which they are bound: loops outermost first, then a statement's indices.
class Ranges {
 public:
  const IndexRange* find(std::string_view name) const;
  void add(const std::string& name, IndexRange range) { ranges_.emplace_back(name, std::move(range)); }
  void drop() { ranges_.pop_back(); }
  const std::vector<std::pair<std::string, IndexRange>>& all() const { return ranges_; }

  struct Interval {
    Dim least, most;
  };
  /// The least and the greatest value over all points; nothing where it depends on data, or on a coefficient whose sign
  /// is not known. Of an affine form they are exact where the ranges are not empty.
  std::optional<Interval> interval(const IndexForm& form) const;
  /// The greatest (else the least) value, with the variables bound at position `from` and behind eliminated.
  std::optional<Affine> extreme(const Affine& a, bool greatest, size_t from = 0) const;

 private:
  std::vector<std::pair<std::string, IndexRange>> ranges_;
};

/// 0 <= index < extent
struct Constraint {
  Form index;
  Dim extent;
  Place place;
  std::string text;    // "dim 1 of A"
  bool holds = false;  // a range was told by it
};

/// Adds the ranges of `unknown` to `ranges`: round by round, of each variable that is alone in a constraint the largest
/// range within all of these.
/// E613 at `place`: there is nothing that tells the range of a variable, or not of one alone.
Result<> infer_ranges(const std::vector<std::string>& unknown, std::vector<Constraint>& constraints, Ranges& ranges,
                      Place place);

}  // namespace fettle::comprehension
