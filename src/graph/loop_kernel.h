#pragma once
// Loops whose iterations work element by element, as tensor expressions.

#include <span>
#include <vector>

#include "base/result.h"
#include "graph/control.h"
#include "te/tensor.h"

namespace fettle {

/// Of a Loop whose iterations are steps of one kernel: how many there are, a list of one dim. See passes::fuse_loops.
inline constexpr std::string_view kStepsKey = "steps";
/// Of a Loop that folds elements into what it carries: worth a kernel however much that is, for it stays in registers.
inline constexpr std::string_view kFoldKey = "fold";
bool is_loop_kernel(const Node& node);
/// Whether loop_compute has tensor expressions of it, and one kernel is worth more than one for each group of nodes.
bool can_be_loop_kernel(const Node& node);

/// The loop's outputs over its inputs, one a node input, undefined where that is null: OpDef::compute of a Loop.
///   s = s0; for i < n: s, row[i] = f(s, x[i])   →   s[e], row[i, e] = recur(s0[e], f(s[e], x[i, e]))
/// Each element of what is carried goes through all steps on its own, so lanes are elements, and states may stay in
/// registers. What is carried in another shape goes through all steps before that: the values that each step begins
/// with are then one more result of these steps.
/// E604 a condition may end it · the shape of what it carries changes · an iteration does more than
/// elementwise work on what it carries · values of two shapes need each other · there is too much of it for one kernel
Result<std::vector<te::Tensor>> loop_compute(const Node& node, std::span<const te::Tensor> inputs);

}  // namespace fettle
