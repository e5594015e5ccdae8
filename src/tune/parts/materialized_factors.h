#pragma once
// Products whose operands are narrower than their sums: halves, and weights of few bits. What widens or unpacks an
// element is several instructions, for each tile that reads it. Where several do, it is done once
// (schedule/reformulate/materialize_factors.cpp).
//
//   for i, j, k: C[i, j] += f32(A[i, k]) * g(B[k, j])
//   →
//   for i, k: A'[i, k] = f32(A[i, k])                       rows: a block like any other
//   for j0:
//     for k, j1: P[k, j1] = g(B'[j0, k, j1])                columns: a panel, just before its tiles of rows
//     for i0: … C[i, j] += A'[i, k] * P[k, j1]              register_tile
//
// What of B is constant lies in panels of its own, as narrow as it is given: B' (register_tile packs it).

#include <optional>
#include <string>
#include <vector>

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle {

/// A product with narrow factors.
struct NarrowProduct {
  std::string block;
  std::optional<int64_t> rows, columns;  // the numbers of its narrow factors, by the output dimensions that they move
                                         // along: others, or the last
  int64_t n_rows = 1, n_columns = 1;     // typically
  int64_t instructions = 0;              // that make a vector of `columns`, beside its load

  /// Whether filling wide panels saves more than it costs.
  bool fills_panels() const;
};
/// The program's only reduction, if that is a sum in f32 of the product of two factors, of which one moves along the
/// output's last dimension, contiguously or as a constant, and along none that the other one alone moves along.
/// Narrow: made of elements of at most 16 bits, each index of which is an iterator alone. Nothing where no factor is,
/// where a tensor intrinsic takes the product, or where one factor is windows of an image. Columns are narrow only
/// beside rows that are elements, so that register_tile takes both.
std::optional<NarrowProduct> narrow_product(const Func& func, const Target& target);

/// Gives these factors, by their numbers, buffers of their own. Errors: those of reformulate
Result<> materialize(Schedule& s, const std::string& block, std::vector<int64_t> factors);

/// The block that has made `buffer` for `reader` so; null where there is none.
const BlockNode* materialized_for(const Func& func, const BlockNode& reader, const Buffer& buffer);

}  // namespace fettle
