#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/onednn.h"

namespace fettle::bench {

/// One operator of the core benchmark: a matmul or a convolution.
struct Shape {
  std::string name;
  std::optional<MatmulProblem> matmul;
  std::optional<ConvProblem> conv;
  /// For a matmul, the least share of FMA peak, in percent, that a hand-written trace must reach; 0 for convolutions,
  /// which are held to the peer instead.
  double hand_of_peak = 0;

  double flops() const;
};

/// Square matrices and the odd sizes of transformers and text recognition; ResNet-50's layers.
const std::vector<Shape>& core_shapes();
/// Depthwise convolutions, as MobileNetV2 and PP-OCRv4's recognition model have them.
const std::vector<Shape>& depthwise_shapes();

}  // namespace fettle::bench
