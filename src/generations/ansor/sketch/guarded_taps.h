#pragma once
// Unrolls the taps of a window whose padding is computed where it is read.

#include <set>
#include <vector>

#include "ir/stmt.h"

namespace fettle {

/// The loops of the reduction that a block's selections compare together with a loop of its tile:
///   for w_1 in 9 (tile), kw in 5:  O += select(2 <= w_0 * 9 + w_1 + kw && …, X[…], 0) * W[…]   →   {kw}
/// Where both are unrolled, each comparison is one of w_0 alone: lowering makes kernels for the borders of the image,
/// in which the taps outside are left out, and one without a comparison for the rest of it. Otherwise each
/// multiplication pays for it.
std::set<const VarNode*> guarded_taps(const BlockNode& block, const std::set<const VarNode*>& tile,
                                      const std::set<const VarNode*>& reduction);

}  // namespace fettle
