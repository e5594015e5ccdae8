#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 6: where the reduction holds more parallelism than the output, a part of it becomes a dimension. Its loops are
/// made one, cut in two, and factored along the inner part (the first next state) or the outer one.
///   (S, i) → (AddRfactor(S, i), i - 1)
extern const DerivationRule add_rfactor_rule;

}  // namespace fettle
