#pragma once
// Whether a convolution is computed by Winograd's algorithm: what comes before the rule of that name.

#include <vector>

#include "tune/space/rule.h"

namespace fettle {

/// Chooses, at the address "winograd/BLOCK/outputs", the outputs of a tile of the convolution by Winograd, or 0 for the
/// convolution as it is written. There is a choice where Winograd may pay (winograd_convolution), on a target with
/// vectors, with an error bound within ctx.max_error_bound. The rule takes the blocks that then stand for it.
Result<> choose_winograd(RuleContext& ctx);
/// The values of that choice from which points are constructed: tiles, over the whole image or in strips of few rows of
/// them.
std::vector<PreferringDecider::Instead> winograd_points(const Func& workload);

}  // namespace fettle
