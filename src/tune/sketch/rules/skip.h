#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 1: leaves the node as it is, where it is not strictly inlinable, or an output that cannot go.
///   (S, i) → (S, i - 1)
extern const DerivationRule skip_rule;

}  // namespace fettle
