#pragma once
// Tiles of rows that all carry dependences, in fronts: those of one front are independent of each other.

#include <cstdint>
#include <optional>
#include <vector>

#include "ir/buffer.h"

namespace fettle {

/// (r0 // f0 + r1 // f1, r1 // f1, r2 // f2, …, and `within`): fronts of tiles of the rows `first` and behind it, and
/// what order a tile has. A row is tiled for each factor.
std::vector<Expr> in_fronts(const std::vector<Expr>& rows, const std::vector<int64_t>& factors, size_t first,
                            const std::vector<Expr>& within);

/// (t, c t + x + s, …) → (c t - x + s, c t + x + s, …): diamonds in place of tiles that all lean one way. So a front is
/// a whole row of tiles, from the first on (Bandishti et al., Tiling stencil computations to maximize parallelism, SC
/// 2012).
/// Nothing where rows are others.
std::optional<std::vector<IndexMap>> leaning_both_ways(const std::vector<IndexMap>& maps);

}  // namespace fettle
