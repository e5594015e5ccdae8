#pragma once

#include "schedule/reformulation.h"

namespace fettle {

/// A convolution of stride 1 by Winograd's minimal filtering F(m x m, r x r): fewer multiplications, in m x m tiles of
/// outputs. (Lavin, Gray: Fast Algorithms for Convolutional Neural Networks, 2016, sections 4 and 5.)
///   for n, o, h, w, c, kh, kw: O[n, o, h, w] += I[n, c, h + kh, w + kw] * W[o, c, kh, kw]
///     →  for x, y, c, o, kh, kw: O_weights[x, y, c, o] += G[x, kh] * G[y, kw] * W[o, c, kh, kw]
///        for n, p, q, c, x, j:   O_rows[x, j, n, p, q, c] = sum over i of Bt[x, i] * I[n, c, p*m + i, q*m + j]
///        for n, p, q, c, x, y:   O_tiles[x, y, n, p, q, c] = sum over j of O_rows[x, j, n, p, q, c] * Bt[y, j]
///        for x, y, n, p, q, o, c: O_product[x, y, n, p, q, o] += O_tiles[x, y, n, p, q, c] * O_weights[x, y, c, o]
///        for n, p, q, o, a, y:   O_columns[a, y, n, p, q, o] = sum over x of At[a, x] * O_product[x, y, n, p, q, o]
///        for n, o, h, w: O[n, o, h, w] = sum over y of O_columns[h % m, y, n, h // m, w // m, o] * At[w % m, y]
/// x and y run over the m + r - 1 points 0, 1, -1, 2, -2, 1/2, -1/2, …, infinity (winograd_matrices.h). Rows of the
/// small matrices are selected by x, y, a and w % m: unrolling these loops leaves additions and multiplications by
/// constants, and rows of opposite points share them. The weights' transform depends on nothing else, so that of
/// constant weights becomes part of the prologue.
/// numbers: m, the outputs of a tile in each direction: at least 2; m + r at most 11.
/// Pattern: a sum in a plain nest of two factors; two output dimensions h, w and two of the reduction kh, kw, of one
/// constant extent r >= 2, such that the input depends on h + kh and w + kw. Any layout, batch and padding; h and w
/// need not be multiples of m: what a tile has beyond is computed from zeros. Refused: groups (an output dimension that
/// both factors depend on), strides, dilation. Returns the blocks in the order above; the last has the old one's name.
/// Class: approximate. The bound is
///   (4a + 2(r + 1) + C + 1) K² / r²
/// with K the largest of |At| (|G| 1 * |Bt| 1), a = m + r - 1, and C terms of the reduction without kh and kw: each of
/// so many roundings is amplified by K² at most (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
/// It is relative to the sum of |terms| with both factors as large as the largest in the tile. Errors are hundreds of
/// times smaller as a rule: on 56 x 56, 64 to 64 channels, F(4x4, 3x3) is off by 5e-6 of the largest output, F(6x6,
/// 3x3) by 9e-6, F(2x2, 3x3) by less than 1e-6.
extern const ReformulationDef winograd_def;

}  // namespace fettle
