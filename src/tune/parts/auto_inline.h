#pragma once
// Inlines blocks before all rules: those that only move values, or that are cheap and read once.

#include "target/target.h"
#include "tune/parts/decider.h"

namespace fettle {

/// Inlines what is worth it, in the whole program.
///   pad: P = select(inside, I, 0); conv: O += P * W   →   conv: O += select(inside, I, 0) * W
/// A padding before a reduction may instead stay a copy of its own: a choice, "auto_inline/<block>/keep". What a
/// reformulation has made to be shared (kRoleKey) stays.
Result<> auto_inline(Schedule& s, const Target& target, Decider& decider);

}  // namespace fettle
