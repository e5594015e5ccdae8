#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace fettle::bench {

/// What a figure is held to.
struct Bound {
  enum class Kind { kAtLeast, kAtMost };
  Kind kind = Kind::kAtLeast;
  double limit = 0;

  bool holds(double value) const;  // false for NaN
  std::string text() const;        // ">= 97", "<= 3"
};
inline Bound at_least(double limit) { return {Bound::Kind::kAtLeast, limit}; }
inline Bound at_most(double limit) { return {Bound::Kind::kAtMost, limit}; }

/// The figures of one benchmark: printed as an aligned table, written as JSON.
class Report {
 public:
  /// name: of the file, without folder or ending.
  explicit Report(std::string name) : name_(std::move(name)) {}

  /// One figure. Without a bound it is only told. NaN stands for a figure that could not be had; it holds no bound.
  void add(std::string what, double value, std::string unit, std::optional<Bound> bound = {});

  /// Whether every bound holds.
  bool all_hold() const;

  /// The aligned table, one line a figure, with "ok" or "MISSED" where there is a bound.
  std::string table() const;

  /// A list of {"what", "value", "unit", "bound", "holds"}; bound and holds are null where there is none, value is for
  /// NaN.
  std::string json() const;

  /// Writes json() to folder/NAME.json, which appears whole or not at all; the folder is made if missing.
  /// Errors: E702.
  Result<void> write(const std::string& folder = "build/bench") const;

 private:
  struct Row {
    std::string what;
    double value = 0;
    std::string unit;
    std::optional<Bound> bound;
  };
  std::string name_;
  std::vector<Row> rows_;
};

}  // namespace fettle::bench
