#pragma once
// Collects accesses into regions.

#include <vector>

#include "ir/buffer.h"

namespace fettle {

/// e + by, joining constants at the top of its sums:  shifted(n - 1, 1) = n.
Expr shifted(const Expr& e, int64_t by);

/// Accesses of one buffer whose indices differ by constants become one rectangular region; others stay apart.
///   A[i - 1, j], A[i + 1, j]   →   A[i - 1 +: 3, j]
class RegionUnion {
 public:
  void add(const Buffer& buffer, const std::vector<Expr>& indices);
  /// The regions, in the order of their first accesses.
  std::vector<Region> take();

 private:
  struct Dimension {
    Expr base;  // null: zero
    int64_t low, high;
  };
  struct Entry {
    Buffer buffer;
    std::vector<Dimension> dimensions;
  };
  std::vector<Entry> entries_;
};

}  // namespace fettle
