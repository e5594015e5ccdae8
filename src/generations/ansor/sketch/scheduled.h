#pragma once
// Marks blocks that are scheduled to the end before a sketch is complete. No rule, place or annotation changes them.

#include "ir/func.h"

namespace fettle {

/// The annotation of such a block.
inline constexpr const char* kScheduled = "scheduled";
bool is_scheduled(const BlockNode& block);

/// The number, among the loops around `block`, of the outermost that holds nothing else; their count where none does.
size_t first_own_loop(const Func& func, const BlockNode& block);
/// The outermost loop around `block` that may be annotated to be unrolled, by the same number. It is the first; where
/// the nest holds scheduled blocks, too, which are unrolled as they should be, it is the first of the block's own.
size_t first_loop_to_unroll(const Func& func, const BlockNode& block);

}  // namespace fettle
