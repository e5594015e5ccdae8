#pragma once
// Extents of tensors: numbers, or integer expressions over sizes that are known when the model runs.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fettle {

/// The largest extent that a dimension may have (E608 beyond it).
inline constexpr int64_t kMaxDim = int64_t{1} << 40;

struct SizeForm;
struct DimTerm;

/// An integer: a number, or an expression over named sizes, each of which lies in a range and has a known divisor. It
/// is immutable, and threads may share it.
///
/// Expressions are kept as a sum of products, so that equal polynomials are equal dims however they came about:
///   (N + 1) * 2 == 2 * N + 2,  H * W == W * H,  (2 * N + 1) // 2 == N,  ((H + 1) // 2 + 1) // 2 == (H + 3) // 4
/// As the content of a shape tensor a dim may be negative. Numbers saturate at kMaxDim in magnitude.
class Dim {
 public:
  Dim() = default;
  Dim(int64_t value) : value_(value) {}
  /// The size called `name`, of [min, max], which `divisor` (at least 1) divides; `typical` is one that it often has
  /// (0: nobody said). One name stands for one size, and is given the same facts everywhere.
  static Dim symbol(std::string name, int64_t min = 0, int64_t max = kMaxDim, int64_t divisor = 1, int64_t typical = 0);

  bool is_number() const { return form_ == nullptr; }
  /// The number; is_number() must hold.
  int64_t value() const;
  /// The name, where the dim is a size and nothing else; else empty.
  std::string_view symbol_name() const;

  // What is known without knowing the sizes: min() <= dim <= max(), and divisor() divides it (at least 1; 0 for 0).
  int64_t min() const;
  int64_t max() const;
  int64_t divisor() const;
  /// What it is at typical sizes: for estimates.
  int64_t typical() const;

  // Its form: the sum of its terms and a number.
  std::vector<DimTerm> terms() const;
  int64_t constant() const;

  /// "48", "H", "2 * N + 1", "(H + 1) // 2". Long ones are abbreviated by a digest.
  std::string to_string() const;

  /// Calls `visit` with each size that the dim depends on, some more than once.
  void for_each_symbol(const std::function<void(const Dim& symbol)>& visit) const;
  /// The dim with sizes replaced where `replacement` has one.
  Dim substitute(const std::function<std::optional<Dim>(std::string_view name)>& replacement) const;

  /// Same number, or same expression: then they are equal for all sizes. Where not, they may still be equal.
  friend bool operator==(const Dim& a, const Dim& b);

 private:
  friend struct SizeForm;
  explicit Dim(std::shared_ptr<const SizeForm> form) : form_(std::move(form)) {}

  int64_t value_ = 0;
  std::shared_ptr<const SizeForm> form_;  // null: a number
};

/// What a product is made of beside a number: a size, or an operation that no polynomial expresses.
struct DimFactor {
  enum class Kind : uint8_t { kSymbol, kFloorDiv, kMax, kMin, kProduct };
  Kind kind;
  Dim whole;  // the factor itself
  Dim a, b;   // operands of all but a symbol
};
struct DimTerm {
  int64_t coefficient;
  std::vector<DimFactor> factors;  // never empty
};

Dim operator+(const Dim& a, const Dim& b);
Dim operator-(const Dim& a, const Dim& b);
/// Of many in the time that they take together.
Dim sum(const std::vector<Dim>& dims);
Dim operator*(const Dim& a, const Dim& b);
/// Rounds towards minus infinity. By a size that is 0 it is as by 1; the number 0 must not be given.
Dim floordiv(const Dim& a, const Dim& b);
Dim ceildiv(const Dim& a, const Dim& b);
Dim max(const Dim& a, const Dim& b);
Dim min(const Dim& a, const Dim& b);

/// a / b, where b divides a whatever the sizes are and that can be told; else nothing.
std::optional<Dim> exact_quotient(const Dim& a, const Dim& b);
/// Whether a == b can hold for any sizes.
bool may_equal(const Dim& a, const Dim& b);

using Shape = std::vector<Dim>;

bool is_static(const Shape& shape);
/// The numbers, or nothing where a dim is no number.
std::optional<std::vector<int64_t>> static_shape(const Shape& shape);
/// Product of the dims (1 for a scalar).
Dim element_count(const Shape& shape);
/// "[N, 3, 48, 320]"
std::string to_string(const Shape& shape);

}  // namespace fettle
