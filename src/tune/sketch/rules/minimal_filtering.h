#pragma once

#include "tune/sketch/sketch.h"

namespace fettle {

/// Number 9: simplify compute with constant tensor, and special compute location. At the first node of a program whose only
/// reduction is a 3x3 convolution of stride 1 with constant weights, where steps know their target: the program by Winograd's
/// F(2x2) or F(4x4), over the whole image or in strips (filtered_convolution.h). The product remains to be tiled.
/// Each is a computation of its own (SketchState::computation).
extern const DerivationRule minimal_filtering_rule;

}  // namespace fettle
