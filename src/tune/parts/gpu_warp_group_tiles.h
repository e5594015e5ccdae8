#pragma once
// Tilings of products for warp groups of sm_90a (wgmma), and how long they take.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "target/target.h"

namespace fettle {

/// A block of threads makes rows x columns elements: `groups` warp groups, one above the other. One further warp group
/// has the copies made, kTermsOfStep terms at a time.
struct WarpGroupTiling {
  static constexpr int64_t kTermsOfStep = 64;

  int64_t rows, columns, groups;
  int64_t stages;              // steps that are in shared memory at once
  int64_t cluster = 1;         // neighbouring blocks that share what they copy of one factor
  bool along_columns = false;  // they lie side by side and share the left factor; else one above the other, the right
  int64_t blocks = 1;          // on a multiprocessor at once

  int64_t rows_of_cluster() const { return along_columns ? rows : rows * cluster; }
  int64_t columns_of_cluster() const { return along_columns ? columns * cluster : columns; }
};

/// Those that there are. Their numbers are the candidates of the choice "tile".
std::span<const WarpGroupTiling> warp_group_tilings();
/// "128x256, 4 stages, cluster of 2"
std::string describe(const WarpGroupTiling& tiling);

/// C[batch, rows, columns] += A[batch, rows, terms] * B, factors of 16 bits.
struct ProductShape {
  int64_t batch = 1, rows = 1, columns = 1, terms = 1;
  bool right_along_terms = false;  // B is [columns, terms]; else [terms, columns]
};

/// Seconds that the product takes on the target's multiprocessors, as predicted: steps take as long as their products
/// or their copies, and blocks go through all tiles in turns.
double predicted_seconds(const WarpGroupTiling& tiling, const ProductShape& shape, const Target& target);
/// Numbers of tilings, what is predicted to be the fastest first.
std::vector<size_t> fastest_tilings(const ProductShape& shape, const Target& target);

}  // namespace fettle
