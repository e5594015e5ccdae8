#pragma once
// Chooses the layouts of what register tiles read and write.

#include "ir/buffer.h"
#include "tune/parts/tiling.h"

namespace fettle {

/// The map that brings the vector iterator's dimension of `load` into panels of `width`; spatial iterators first, then
/// the reduction in the order of its loops. `blocked_reduce`: the reduce iterator whose dimension is in blocks of
/// `lanes`.
///   (k, n) → (n // width, k, n % width)          (o, i, h, w) → (o // width, i // 16, h, w, i % 16, o % width)
IndexMap panel_map(const BlockStructure& block, const TilingRoles& roles, const AccessPattern& load, int64_t width,
                   std::optional<size_t> blocked_reduce, int64_t lanes);

/// The map that makes the dimensions of fused rows (roles.flat) one, so that a tile that crosses image rows is a
/// rectangle:
///   (n, h, w, c) → (n, h*56 + w, c)
IndexMap flat_map(const BlockStructure& block, const TilingRoles& roles);

}  // namespace fettle
