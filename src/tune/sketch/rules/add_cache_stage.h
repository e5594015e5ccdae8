#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 5: a node with data reuse and without a fusible consumer gets one: it writes to a cache, which a node of its
/// own copies back. The node stays the working one.
///   (S, i) → (AddCacheWrite(S, i), i)
extern const DerivationRule add_cache_stage_rule;

}  // namespace fettle
