#pragma once
// Small arithmetic that needs no proof: constants joined, accesses collected into regions.

#include <unordered_set>
#include <vector>

#include "ir/visit.h"

namespace fettle {

/// e + by, joining constants at the top of its sums:  shifted(n - 1, 1) = n.
Expr shifted(const Expr& e, int64_t by);

/// Rebuilds expressions with their constants folded and joined.
class Folder : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override;
};

/// Accesses of one buffer whose indices differ by constants become one rectangular region; others stay apart.
/// An index that depends on data reaches the whole dimension, and so does one of a variable that statements bind.
///   A[i - 1, j], A[i + 1, j]   →   A[i - 1 +: 3, j]        T[I[i], j]   →   T[0 +: rows, j]
class RegionUnion {
 public:
  void add(const Buffer& buffer, const std::vector<Expr>& indices);
  /// The loops and lets of `statement` bind variables of no meaning outside.
  void bind(const Stmt& statement);
  /// The regions, in the order of their first accesses.
  std::vector<Region> take();

 private:
  struct Dimension {
    Expr base;  // null: zero
    int64_t low, high;
    bool whole;
  };
  struct Entry {
    Buffer buffer;
    std::vector<Dimension> dimensions;
  };
  std::vector<Entry> entries_;
  std::unordered_set<const VarNode*> bound_;
};

}  // namespace fettle
