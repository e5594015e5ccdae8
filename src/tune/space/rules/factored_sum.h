#pragma once
// Whether factors are taken out of a sum's blocks: what comes before the rule of that name.

#include "tune/space/rule.h"

namespace fettle {

/// Chooses, at the address "factored_sum/BLOCK/factored", whether the sum is replaced by sums of its blocks. There is a
/// choice where weights of few bits are unpacked (factorable_sum), and that it is replaced is preferred. The rule takes
/// the blocks that then stand for it.
Result<> choose_factored_sum(RuleContext& ctx);

}  // namespace fettle
