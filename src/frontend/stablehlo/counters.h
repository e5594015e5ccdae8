#pragma once
// What is known of integers that a counted loop's iterations give: JAX reads and writes rows by them.

#include <cstdint>
#include <optional>

namespace fettle {
struct Value;
}

namespace fettle::stablehlo {

class Importer;
class OpImport;
struct Op;
struct Tensor;

/// The integer first + step * (number of the iteration), of a loop of so many iterations.
struct Progression {
  fettle::Value* number;  // the loop body's input
  int64_t iterations;     // at least one
  int64_t first;
  int64_t step;  // 1 or -1

  int64_t last() const { return first + step * (iterations - 1); }
  int64_t min() const { return step > 0 ? first : last(); }
  int64_t max() const { return step > 0 ? last() : first; }
};

/// A tensor of which one row, along an axis, was written anew.
struct RowUpdate {
  const fettle::Value* before;
  fettle::Value* row;  // with an extent of 1 along the axis
  int64_t axis;
  Progression at;
};

/// Keeps what the scalar is known to be, where it fits its type.
void keep_progression(Importer& importer, const fettle::Value* value, const Progression& progression);
/// Null: it is not known, or of another graph than the current one.
const Progression* find_progression(Importer& importer, const Tensor& tensor);
/// Of what an operator that was just imported makes of such integers.
void follow_progressions(OpImport& o, const Tensor& result);
/// What a comparison of such an integer with a constant always gives.
std::optional<bool> known_comparison(OpImport& o);

}  // namespace fettle::stablehlo
