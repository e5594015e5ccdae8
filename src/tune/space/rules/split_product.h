#pragma once
// Whether a product of single precision is computed by a matrix unit for bf16: what comes before the rule of that name.

#include <vector>

#include "tune/space/rule.h"

namespace fettle {

/// Chooses, at the address "split_product/BLOCK/terms", how many products of parts stand for one, or 0 for the product
/// as it is written. There is a choice where splitting may pay (splittable_product), with an error bound within
/// ctx.max_error_bound. The rule takes the blocks that then stand for it.
Result<> choose_split_product(RuleContext& ctx);
/// The values of that choice from which points are constructed: those that round no more than what is written.
std::vector<PreferringDecider::Instead> split_product_points(const Func& workload, const Target& target);

}  // namespace fettle
