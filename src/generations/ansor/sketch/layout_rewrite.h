#pragma once
// Layout rewrite: constants are laid out in the order in which a tiled nest walks through them. (Ansor, section 4.2 and
// its layout rewrite of weights; MetaSchedule's RewriteLayout.)

#include "schedule/schedule.h"

namespace fettle {

/// Each constant, parameter or worked out from constants alone, of two dimensions or more that one block reads, and
/// that its loops walk through digit by digit, gets the order of those loops:
///   W[k, j] in for j_0: for k_0: for k_1: for j_1   →   (k, j) → (j // 16, k // 8, k % 8, j % 16)
/// Constants are packed when the program is compiled. Loops must not be fused yet. What is refused stays as it is.
Result<> rewrite_constant_layouts(Schedule& s);

/// Lanes of a tiled reduction would have to gather what they walk through in strides. Such operands are copied before
/// into the order of the loops: the inserted transform stage of Ansor's layout rewrite.
///   S[i, j] += Q[i, c] * K[j, c]   →   K'[j // 16, c, j % 16] = K[j, c];   S[i, j] += Q[i, c] * K'[j // 16, c, j % 16]
/// The copy is made in vectors, by all threads. Loops must not be fused yet.
Result<> insert_transform_stages(Schedule& s, int threads);

}  // namespace fettle
