#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Rule 4: a node with data reuse and a fusible consumer is tiled, and the consumer joins each tile. One next state for
/// each level of spatial tiles outside of the reduction ("SSRSRS": two).
///   (S, i) → (FuseConsumer(MultiLevelTiling(S, i), i), i - 1)
extern const DerivationRule multi_level_tiling_with_fusion_rule;

}  // namespace fettle
