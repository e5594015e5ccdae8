#pragma once
// Loops that scan the instances of a nest in a new order (isl's AST generation).

#include <optional>

#include "analysis/affine/nest.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// An order of a nest's instances, and its tiles.
struct ScanOrder {
  isl::union_map when;  // S<k>[…] → [rows…]
  size_t rows = 0;
  std::vector<int64_t> factors;  // tile sizes of the first rows
  bool full_tiles = false;       // whole tiles get loops of their own
  std::vector<size_t> apart;     // rows behind the tiled ones, of few values, which get loops of their own
};

/// Loops with the nest's blocks in them. Loop c<d> is over tiles for d < factors.size(), then over row d - that.
/// Copies of blocks are named so that no block of `func` has the name.
/// E209: isl gave up, or code has an expression that the loop language lacks
Result<Stmt> scan(const Func& func, const AffineNest& nest, const ScanOrder& order, Analyzer& analyzer);

/// The dimension that a loop made by `scan` scans, or -1.
int scanned_dimension(const ForNode& loop);

}  // namespace fettle
