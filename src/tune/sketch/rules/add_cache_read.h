#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 7, where tiles are bound to threads: what a tiled node alone reads is copied to memory that the threads of a
/// block share, below the first level of the reduction. The node stays the working one.
///   (S, i) → (AddCacheRead(S, i), i)
extern const DerivationRule add_cache_read_rule;

}  // namespace fettle
