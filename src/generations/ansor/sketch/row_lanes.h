#pragma once
// Computes the sum or maximum of a row in the lanes of vectors, which are then combined by halves. A compiler that may
// reassociate would do so behind the schedule; here these are steps of the trace. Ansor's and MetaSchedule's spaces
// share it on CPUs.

#include <string>

#include "schedule/schedule.h"

namespace fettle {

/// The annotation of a block that works out a part of a row's reduction, and of the one that has the total: the total's
/// name.
inline constexpr const char* kRowLanes = "row_lanes";

/// Begins a schedule: reductions along contiguous memory are split into lanes (lane_reductions: how many vectors is a
/// decision), what divides by their totals multiplies by a reciprocal. The blocks get the annotation.
///   S[i] += E[i, l]   →   S_partial[i, p] += E[i, l*16 + p];   S_8[i, p] = S_partial[i, p] + S_partial[i, p + 8]; …
Result<> split_rows_into_lanes(Schedule& s);

/// Whether the block is such a part, or a total: rules leave these as they are.
bool is_in_row_lanes(const BlockNode& block);
/// Whether it is a total: it may be moved, and its parts go where it is.
bool is_row_total(const BlockNode& block);

/// Computes the parts of a total where the total is, in vectors and registers.
///   for i: S   →   for i: for l: for p in lanes: S_partial;   for p in lanes: S_8;   …   S
/// Errors: those of compute_at, where the total is not one number there
Result<> attach_row_lanes(Schedule& s, const std::string& total);

/// Whether the block may be computed elsewhere: alone in its nest, neither scheduled to the end nor a part of a total,
/// and read by others.
bool may_move(const Func& func, const BlockNode& block);
/// Computes it at a place: kStay, kInline, or under the loop of that number of its first reader. A total takes its
/// parts along.
/// Errors: E235 a total is not inlined; no such loop · those of the steps
Result<> move_to(Schedule& s, BlockRef block, int64_t place);

}  // namespace fettle
