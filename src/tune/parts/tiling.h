#pragma once
// Register tiles of a reduction. They say which iterators make a tile, which tiles there are, and what each is likely
// to cost.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/target.h"
#include "tune/parts/structure.h"

namespace fettle {

/// Channels of a picture, at most: with so few, the taps of a row are unrolled together with them.
inline constexpr int64_t kPictureChannels = 4;

/// The part that each iterator of a reduction plays in register tiling.
///   matmul C[i, j] += A[i, k] * B[k, j]                          vector j, row i, reduce k
///   conv   O[n, h, w, c] += I[n, h+kh, w+kw, ic] * W[c, ic, kh, kw]  vector c, row w, rowish h n, reduce kh kw ic
///   depthwise O[n, h, w, c] += I[n, h+kh, w+kw, c] * W[kh, kw, c]    the same; both operands have vectors
struct TilingRoles {
  size_t vector = 0;                 // iterator whose values fill the lanes
  std::optional<size_t> row;         // iterator whose values fill the rows of the tile
  std::vector<size_t> batch;         // other spatial iterators on which what the vectors are read from depends
  std::vector<size_t> outside;       // other spatial iterators on which it does not
  std::vector<size_t> reduce;        // in the order in which the loops shall be nested
  std::optional<size_t> panel;       // load that is packed into panels of whole tiles: constant, or not contiguous
  std::optional<size_t> packable;    // load that may be: contiguous, and no constant
  std::vector<size_t> vector_loads;  // loads that move with the vector iterator
  std::vector<size_t> row_loads;     // loads that move with the row iterator and not with the vector
  bool panel_is_constant = false;
  /// Number of the iterators just outside of `row` that may be fused with it: all accesses stay affine.
  size_t flat = 0;
  /// Another iterator for rows, where `row` alone has few values or windows share what they read: pixels of several
  /// image rows in one tile.
  std::optional<size_t> second_row;
};

/// Nothing where there is no iterator to fill vectors with.
/// `vector_hint`: the iterator to use, where layouts are about to make it the innermost of the output.
/// `shared`: so many of the outermost iterators play no part. A buffer of kWeightsRole is as good as a constant.
std::optional<TilingRoles> tiling_roles(const Func& func, const BlockStructure& block,
                                        std::optional<size_t> vector_hint = std::nullopt, size_t shared = 0);

struct Tile {
  int64_t rows = 1;
  int64_t vectors = 1;
  int64_t second_rows = 1;  // of the second row iterator
  double cost = 0;          // predicted cycles of the whole nest

  /// What a decision records: "14x2" is 14 rows x 2 vectors, "7+2x2" 7 x 2 pixels x 2 vectors.
  std::string name() const;
};

/// What is worth trying for `row_extent` rows and `vector_extent` columns, cheapest first by a closed form:
/// multiply-adds, loads, latency, panels from L2, surplus rows and lanes, cache sets.
struct TileProblem {
  int64_t row_extent = 1, second_row_extent = 1, vector_extent = 1, steps = 1, repeats = 1;
  int64_t lanes = 16;
  bool shared_vectors = true;  // rows read the same vectors (else each row loads its own)
  // Of rows that load their own: windows of so many unrolled taps, so many rows apart, share what they read.
  int64_t taps = 1, row_step = 1, second_taps = 1, second_step = 1;
  // Of rows that share vectors, and read windows whose taps are unrolled together: so many elements of each wait for
  // the tap at which a neighbour reads them.
  int64_t kept_rows = 0;
  bool multiplies = true;
  bool streamed = false;         // what rows read comes from beyond the second-level cache
  int64_t row_stride_bytes = 0;  // between rows, where they are read in place
  bool balanced_rows = true;     // else all tiles are as high, but for the last
  bool open_rows = false;        // as many as the program is told when it runs: each height of a tile is code
  int threads = 1;
};
std::vector<Tile> ranked_tiles(const TileProblem& problem, const Target& target);

}  // namespace fettle
