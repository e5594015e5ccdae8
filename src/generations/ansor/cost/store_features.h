#pragma once
// The features that Ansor gives each innermost statement of a program (Zheng et al.: Ansor, OSDI 2020, appendix B): 164
// numbers for each store, read from its loops, its operations and its accesses.

#include <string>
#include <vector>

#include "ir/func.h"

namespace fettle {

inline constexpr size_t kStoreFeatures = 164;

/// One row of kStoreFeatures for each store of a kernel that was lowered with neither micro-kernels outlined nor loops
/// expanded (Pipeline::kUnexpandedWhole), in program order. In this order:
///   operations      float and integer ones by kind, booleans, selects: how often all in all                         16
///   lanes, copies,  of vectorized, unrolled and parallel loops: how many loops, their product, the extent of
///   threads         the innermost, and where it is among the statement's loops (one of 8)                       3 x 11
///   device          extents of the loops bound to blocks, threads and virtual threads                                8
///   accesses        of the five buffers that are touched most: reads, writes or both; bytes and cache lines, touched
///                   and distinct; how its elements are used again (by a loop, by other accesses, or not): after how
///                   many iterations and bytes, how often; the four sizes for each use; the innermost stride     5 x 18
///   intensity       operations for each distinct byte, at ten points of the way from the innermost loop outwards    10
///   allocation      of the buffer stored to, if it is made inside: bytes, loops around it and inside, their product  4
///   others          the product of the loops, their number, the largest auto_unroll_max_step around                  3
/// All but shares of one are log2(1 + x).
std::vector<float> store_features(const Func& kernel);

/// The names of the kStoreFeatures columns.
const std::vector<std::string>& store_feature_names();

}  // namespace fettle
