#pragma once

#include "schedule/schedule.h"

namespace fettle {

/// Raises a sum of products to extents that tiles and tensor intrinsics divide. Copies of the inputs are filled up with
/// zeros, and surplus elements of the output are dropped.
///   pad_einsum(C, [16, 16, 4]):   for i in 100, j in 32, k in 30: C[i, j] += A[i, k] * B[k, j]
///   →
///   A_pad[i, k] = select(i < 100 && k < 30, A[i, k], 0) over 112 x 32      B_pad[k, j] = … over 32 x 32
///   for i in 112, j in 32, k in 32: C_pad[i, j] += A_pad[i, k] * B_pad[k, j]
///   C[i, j] = C_pad[i, j]
/// padding: for each iterator, in order: its extent is rounded up to a multiple of this
/// Every index of the output must be an iterator, and so must one of an input that an iterator to be padded is part of:
/// windows stay where they are (A[i + w, k] may be padded along k). An iterator of the reduction can be padded where
/// the block sums products of loads that all depend on it; one of the output where it is an index of it. Returns the
/// copying blocks, named <buffer>_pad, in order of first access, the output's last; none where nothing is padded. Costs
/// the copies, and the surplus.
/// Errors: E201 a loop is annotated or not serial · E202 not one factor >= 1 for each iterator · E206 no such block
///         E207 the nest is not plain (loops from 0, directly nested, one for each iterator, no predicate)
///         E212 no reduction with a neutral init, or the surplus would not be zero · E214 an index of the output, or of
///         what is padded, is no iterator, an iterator to be padded is no index of the output, or a buffer is read at
///         different places · E221 an extent to be padded is not a constant
struct PadEinsumArgs {
  BlockRef block;
  std::vector<int64_t> padding;
  static constexpr auto fields =
      std::tuple{field("block", &PadEinsumArgs::block), field("padding", &PadEinsumArgs::padding)};
};
Result<std::vector<BlockRef>> pad_einsum(Schedule& s, const PadEinsumArgs& args);

}  // namespace fettle
