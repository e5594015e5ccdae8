#pragma once
// Programs whose loops run in order, in orders that isl's scheduler finds.

#include <functional>

#include "tune/space/rule.h"

namespace fettle {

/// Calls `consider` with the state after each order of the program's nests whose blocks share loops, or that run in
/// order over no rectangle. Their blocks are done; the others are left to rules. Nothing is called for a program that
/// has no such nests, or open sizes, or none that is affine. The number: by how much too long the prediction says that
/// the order takes (preferences.h), or 1.
void for_each_affine_order(const RuleContext& ctx, const std::function<void(RuleContext, double)>& consider);

}  // namespace fettle
