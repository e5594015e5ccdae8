#pragma once
// Attention in one pass (tune/parts/attention.h), as a stage: what it takes is the whole program.

#include "tune/space/rule.h"

namespace fettle {

/// Computes scores, their softmax and what they weigh in one pass over the keys, where that is chosen: "one_pass". All
/// blocks are then done.
Result<> choose_attention(RuleContext& ctx);

/// The same on tensor cores (tune/parts/gpu_attention.h), where these multiply what there is.
Result<> choose_tensor_attention(RuleContext& ctx);

}  // namespace fettle
