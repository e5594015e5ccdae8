#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 3: a node with data reuse is tiled on several levels (DeriveOptions::tiling).
///   (S, i) → (MultiLevelTiling(S, i), i - 1)
extern const DerivationRule multi_level_tiling_rule;

}  // namespace fettle
