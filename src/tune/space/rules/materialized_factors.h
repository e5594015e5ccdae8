#pragma once
// Narrow factors of a product, which are widened or unpacked once (parts/materialized_factors.h).

#include "tune/space/rule.h"

namespace fettle {

/// Decides, before anything else is done to the program, which narrow factors of a product get buffers of their own.
/// Any does where several tiles read it, and is preferred to where so many do that it pays. The rules take the blocks
/// that then stand for the product as any others.
Result<> choose_materialized_factors(RuleContext& ctx);

}  // namespace fettle
