#pragma once
// Before all rules: blocks that only move values, or are cheap and read once, join those that read them.

#include "tune/space/rule.h"

namespace fettle {

/// Inlines what is worth it, in the whole program.
///   pad: P = select(inside, I, 0); conv: O += P * W   →   conv: O += select(inside, I, 0) * W
/// A padding before a reduction may instead stay a copy of its own: a decision, "auto_inline/<block>/keep".
Result<> auto_inline(RuleContext& ctx);

}  // namespace fettle
