#pragma once
// Whether a product of single precision is computed by a matrix unit for bf16: what comes before the rule of that name.

#include "tune/space/rule.h"

namespace fettle {

/// Chooses, at the address "split_product/BLOCK/terms", how many products of parts stand for one, or 0 for the product
/// as it is written. There is a choice where splitting may pay (splittable_product), with an error bound within
/// ctx.max_error_bound. The product as it is written is preferred. The rule takes the blocks that then stand for it.
Result<> choose_split_product(RuleContext& ctx);

}  // namespace fettle
