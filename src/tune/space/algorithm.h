#pragma once
// Which algorithm computes a reduction: a decision, the first of a point, before anything else is done to the program.

#include "tune/space/rule.h"

namespace fettle {

/// Chooses, at the address "algorithm/BLOCK/winograd", the outputs m of a tile of Winograd's minimal filtering
/// (schedule/reformulate/winograd.h), 2 or 4, or 0 for the convolution as it is written. Where m > 0, the block is replaced and ctx.filtering tells its parts.
/// Offered for the only reduction of a program, a 3x3 convolution of stride 1 with constant weights, channels last,
/// of at least 16 channels each way and 4 x 4 pixels, on a target with vectors; with an error bound within ctx.max_error_bound.
Result<> choose_algorithm(RuleContext& ctx);

/// The program's only reduction, if minimal filtering may pay for it: of 3x3 taps and constant weights, channels last, of at
/// least 16 channels each way and 4 x 4 pixels. Strides and dilation show when it is filtered.
std::optional<MinimalFiltering> filterable_convolution(const Func& func);

/// The outputs of a tile, in each direction, that are worth a try.
inline constexpr int64_t kFilterOutputs[] = {2, 4};

/// Replaces the convolution by the parts of F(m x m, 3 x 3), and tells them. Errors: E228 strides, dilation · E234 another
/// edit came before
Result<MinimalFiltering> filtered(Schedule& s, const MinimalFiltering& convolution, int64_t m);

/// Of the multiplications of a workload as it is written, the least share that one of its algorithms does.
///   F(4x4, 3x3): 36 instead of 144 for each tile and pair of channels, 0.25
double least_share_of_products(const Func& workload, double max_error_bound);

}  // namespace fettle
