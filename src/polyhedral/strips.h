#pragma once
// Strips of a loop that blocks share.

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// Unroll-and-jam of the outermost loop, i, that the blocks share: each block goes over a strip of it before the next.
///   for i: { for j: S(i, j)   for j: T(i, j) }
///   →  for i0: { for j: { S(i0 * 8, j) … S(i0 * 8 + 7, j) }   for j: { T(i0 * 8, j) … T(i0 * 8 + 7, j) } }
/// What a strip of a matrix has is read from memory once. An element that goes on from one value of i to the next is
/// read and written once a strip. Innermost loops become `lanes` where they may; sums along them stay loops, of which
/// LLVM makes lanes. A strip has at most eight iterations, and divides the loop's.
/// The shared loop may run in order. What a strip needs of earlier ones is then done for all of its iterations at once:
///   for i: { for j in i: x[i] -= L[i, j] * x[j]   x[i] /= L[i, i] }
///   →  for i0: { for j in i0 * 8: { x[i0 * 8] -= …, … x[i0 * 8 + 7] -= … }   for j in the strip: { x[j] /= …  … } }
/// After Callahan, Carr and Kennedy, "Improving register allocation for subscripted variables" (PLDI 1990).
/// Errors: E211 the blocks share no loop of constant extent, nothing divides it, or it has triangles and no order
///         E227 a dependence would be broken · those of AffineNest::of
Result<> strip_shared_loop(Schedule& s, const std::vector<std::string>& blocks, int64_t lanes);

}  // namespace fettle
