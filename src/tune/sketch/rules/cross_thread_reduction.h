#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 8, where tiles are bound to threads: the terms of a node with more parallelism in its reduction are shared
/// among the threads of a block.
///   (S, i) → (CrossThreadReduction(S, i), i - 1)
extern const DerivationRule cross_thread_reduction_rule;

}  // namespace fettle
