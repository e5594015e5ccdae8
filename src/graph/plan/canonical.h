#pragma once
// Rewrites that give equal work equal programs, whatever graph it came from. None of them changes a result.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "ir/func.h"

namespace fettle {

/// A number that is worth being part of the program: few binary or decimal digits, or the inverse of a small integer
/// (0.5, 3, 1/6, 1e-5). Trained scalars are not, so that layers that differ in them alone stay one workload.
bool is_round_number(double value);

/// Parameters of one element become the numbers given for them and are dropped.
///   B[i] = A[i] * s[0]   →   B[i] = A[i] * 0.5
Func fold_scalars(const Func& func, const std::unordered_map<const BufferNode*, double>& values);

/// Elementwise and injective blocks join the blocks that read them, unless that would repeat costly work.
///   b[i] = conv[i] + bias[i]; c[i] = max(b[i], 0)   →   c[i] = max(conv[i] + bias[i], 0)
/// Kept: reductions; padding, whose guard schedules deal with; and what is costly and read more than once.
Func inline_blocks(const Func& func);

/// How a buffer's dimensions lie in memory.
struct BufferOrder {
  std::vector<int> order;     // the dimensions, outermost first
  std::vector<Expr> strides;  // elements, in this order; empty: dense
};

/// Buffers get the shape in which they lie, and accesses follow.
///   A: [n, c, h, w], order (0, 2, 3, 1); A[i, j, k, l]   →   A: [n, h, w, c]; A[i, k, l, j]
Func apply_orders(const Func& func, const std::unordered_map<const BufferNode*, BufferOrder>& orders);

/// Loops and spatial iterators of each nest in the order of the dimensions that the block writes; reductions after
/// them.
Func order_loops(const Func& func);

}  // namespace fettle
