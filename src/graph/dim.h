#pragma once
// Extents of tensors: numbers, or symbols with a range.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fettle {

/// The largest extent that a dimension may have (E608 beyond it).
inline constexpr int64_t kMaxDim = int64_t{1} << 40;

/// A number, or a symbol: a named unknown in [min, max]. What is computed from a symbol is a symbol again, named by
/// the formula ("(H + 1) // 2", numbers added up), so equal formulas are equal dims. As the content of a shape tensor a
/// Dim may also be a negative number.
class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : min_(value), max_(value) {}
  static Dim symbol(std::string name, int64_t min = 1, int64_t max = kMaxDim);

  bool is_number() const { return name_.empty(); }
  /// The number; is_number() must hold.
  int64_t value() const;
  /// The symbol's name, empty for a number.
  const std::string& name() const { return name_; }
  int64_t min() const { return min_; }
  int64_t max() const { return max_; }
  /// "48", "H"
  std::string to_string() const;

  /// Same number, or same symbol.
  friend bool operator==(const Dim& a, const Dim& b) {
    return a.name_ == b.name_ && (!a.is_number() || a.min_ == b.min_);
  }

 private:
  friend Dim operator+(const Dim& a, const Dim& b);
  static Dim shifted(const Dim& symbol, int64_t by);

  std::string name_;
  int64_t min_ = 0, max_ = 0;
  std::string base_;  // of a symbol that is base + offset; empty where offset is 0
  int64_t offset_ = 0;
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
/// Saturates at kMaxDim in magnitude, so that no product overflows.
Dim operator*(const Dim& a, const Dim& b);
/// Rounds towards minus infinity; b's value must not be 0.
Dim floordiv(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);

using Shape = std::vector<Dim>;

bool is_static(const Shape& shape);
/// The numbers, or nothing where a dim is a symbol.
std::optional<std::vector<int64_t>> static_shape(const Shape& shape);
/// Product of the dims (1 for a scalar).
Dim element_count(const Shape& shape);
/// "[N, 3, 48, 320]"
std::string to_string(const Shape& shape);

}  // namespace fettle
