#pragma once
// Whether a nest is long enough for several threads to share it: a fork and a join cost some hundred nanoseconds.

#include "tune/space/rule.h"

namespace fettle {

/// Of an instruction that multiplies and adds a vector.
inline constexpr double kMultiplyAddNs = 0.3;

/// About how long one thread takes for all points of a block, worked out in vectors whose operands are in a near cache,
/// ns: a third of one for a vector of multiply-adds, a half for what moves and adds, four for each of its `calls`.
double alone_ns(const RuleContext& ctx, const BlockStructure& block, int64_t calls = 0);

/// Whether what takes one thread `ns` is dealt out to all: a decision ("parallel") where that is not clear.
Result<bool> worth_threads(RuleContext& ctx, double ns);

/// Calls of functions that take more than an instruction or two.
int64_t calls_of(const BlockNode& block);

}  // namespace fettle
