#pragma once
// Blocks of a sum's steps, for eliminations.

#include <cstdint>
#include <optional>
#include <vector>

#include "analysis/affine/nest.h"

namespace fettle {

/// Maps that take a nest in blocks of its sums' steps, where rows are a permutable band of three and sums go along one
/// of them, k. What a block of steps makes ready comes first; then comes all that lies beyond it along both other rows,
/// each sum in a nest of its own, to which these steps are mere products.
///   for i: { for j in i: { for k in j: A[i, j] -= A[i, k] * A[k, j]   A[i, j] /= A[j, j] } … }
///   →  for kb: { for i, k in the block: { A[i, k] /= A[k, k]   for j in the block or i in it: A[i, j] -= … }
///               for i, k in the block, j: A[i, j] -= A[i, k] * A[k, j] }
/// `maps`: (loops…) → (rows…, position). `depth`: steps of a block. Nothing where no statement is such a sum.
/// After Carr and Kennedy, "Compiler blockability of numerical algorithms" (SC 1992).
std::optional<std::vector<IndexMap>> plan_step_blocks(const std::vector<NestStatement>& statements,
                                                      const std::vector<IndexMap>& maps, int64_t depth);

/// Of the outputs, the one that says whether an instance is beyond the block, and in which nest.
inline constexpr int64_t kNestOutput = 1;

}  // namespace fettle
