#pragma once
// Square tiles that are transposed in registers.

#include <cstdint>
#include <utility>
#include <vector>

#include "ir/stmt.h"

namespace fettle {

/// Whether `lanes` vectors of so many lanes each can be transposed: a power of two, of 16 bytes or more.
bool may_transpose(int64_t lanes, DType dtype);

/// n vectors of n lanes each, one behind the other in a register buffer, become their columns in another. Shuffles of
/// two vectors do it, in log2(n) steps.
class Transposition {
 public:
  Transposition(const Buffer& rows, int64_t n);

  const std::vector<Stmt>& steps() const { return steps_; }
  const Buffer& rows() const { return buffers_.front(); }
  const Buffer& columns() const { return buffers_.back(); }
  /// These and what lies between.
  const std::vector<Buffer>& buffers() const { return buffers_; }
  int64_t width() const { return n_; }
  /// The elements of one of the vectors.
  Expr run(int64_t vector) const { return ramp(Expr(vector * n_), Expr(1), n_); }

 private:
  using Choice = std::pair<std::vector<int>, std::vector<int>>;  // lanes of two vectors for the first and the second
  void step(int distance, const Choice& choice, bool adjacent = false);
  static Choice halves(int lanes, int part, int unit);
  static Choice alternate_parts(int lanes, int part);

  int n_;
  std::vector<Buffer> buffers_;
  std::vector<Stmt> steps_;
};

}  // namespace fettle
