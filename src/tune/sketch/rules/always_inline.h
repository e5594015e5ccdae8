#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 2: a strictly inlinable node that is no output is computed where it is read.
///   (S, i) → (Inline(S, i), i - 1)
extern const DerivationRule always_inline_rule;

}  // namespace fettle
