#pragma once
// AutoTVM's features of a program's loops, and of the relations between what they do (Chen et al.: Learning to Optimize
// Tensor Programs, NeurIPS 2018, section 3.1 and the supplementary material).

#include <string>
#include <vector>

#include "ir/func.h"

namespace fettle {

// Of loop_features().
inline constexpr size_t kLoopSlots = 24, kLoopBuffers = 5, kLoopColumns = 30;
inline constexpr size_t kLoopFeatures = kLoopSlots * kLoopColumns;
// Of curve_features().
inline constexpr size_t kCurveBuffers = 5, kCurves = 4, kCurveSamples = 20, kCurveKinds = 11;
inline constexpr size_t kCurveFeatures = (1 + kCurveBuffers) * kCurves * kCurveSamples + kCurveKinds;

/// The loop context of a kernel that was lowered with neither micro-kernels outlined nor loops expanded
/// (Pipeline::kUnexpandedWhole): kLoopColumns for each of its loops, in program order, zeros after the
/// last; of more loops than kLoopSlots, those with the most accesses inside. For each:
///   extent     and its level, 0 for an outermost loop                                                               2
///   topdown    the product of the extents outside                                                                   1
///   bottomup   the product of those inside, on the way down on which it is largest                                  1
///   kind       serial, parallel, vectorized, unrolled; bound to a block's or a thread's axis, or a virtual thread  11
///   accesses   of the five buffers that are accessed most inside (of equals the first): distinct bytes that one run
///              of the loop touches, accesses for each distinct element, bytes from one iteration to the next   5 x 3
/// All but shares of one are log2(1 + x).
std::vector<float> loop_features(const Func& kernel);
const std::vector<std::string>& loop_feature_names();

/// Relations between the levels of that kernel's loops. The levels of a buffer are the program, each loop, one
/// iteration of its body, and each statement. At each the buffer has a number of distinct bytes touched in one run of
/// it, a reuse (accesses for each distinct element) and a top-down product (runs of the level). A curve shows
///   R(t) = the largest x over the levels whose y is below 2^(1.5 t), for t in 1 … 20; 0 where there is none
/// of the pairs (x, y) = (bytes, reuse), (reuse, bytes), (top-down product, bytes), (bytes, top-down product): of all
/// buffers together, then of the five that are accessed most. Last, for each kind of loop, the largest product of
/// extents of such loops around a statement. All are log2(1 + x). A loop of one iteration, wherever it is put around a
/// statement or a body, changes nothing, so that programs of different loops are described alike.
std::vector<float> curve_features(const Func& kernel);
const std::vector<std::string>& curve_feature_names();

}  // namespace fettle
