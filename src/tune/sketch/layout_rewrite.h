#pragma once
// Layout rewrite: constants are laid out in the order in which a tiled nest walks through them. (Ansor, section 4.2 and
// its layout rewrite of weights; MetaSchedule's RewriteLayout.)

#include "schedule/schedule.h"

namespace fettle {

/// Each constant parameter of two dimensions or more that one block reads, and that its loops walk through digit by
/// digit, gets the order of those loops:
///   W[k, j] in for j_0: for k_0: for k_1: for j_1   →   (k, j) → (j // 16, k // 8, k % 8, j % 16)
/// Constants are packed when the program is compiled. Loops must not be fused yet. What is refused stays as it is.
Result<> rewrite_constant_layouts(Schedule& s);

}  // namespace fettle
