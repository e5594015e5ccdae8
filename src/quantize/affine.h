#pragma once
// Numbers that stand for floats: value = (number - zero point) * scale.

#include <cstdint>
#include <span>
#include <vector>

#include "quantize/histogram.h"

namespace fettle::quantize {

enum class ByteType : uint8_t { kU8, kS8 };

struct Affine {
  float scale = 1;
  int zero_point = 0;
};

/// Numbers of the type for all of the range, and 0 exactly. The scale of a range that is 0 alone is 1.
Affine affine_of(Range range, ByteType type);

/// Weights as s8 from -127 to 127, with one scale for each index along an axis, or one for all.
struct QuantizedWeights {
  std::vector<float> scales;
  std::vector<int8_t> numbers;
};

/// What each channel's scale has to be at least, beside what its weights ask for; empty: nothing.
using LeastScales = std::vector<float>;

/// axis: -1 for one scale. Channels of zeros alone get the least scale, or 1.
QuantizedWeights quantize_weights(std::span<const float> weights, std::span<const int64_t> shape, int axis,
                                  const LeastScales& least);

/// The least scale of the weights with which a bias of this size fits into an i32 whose scale is that of the product.
float least_scale(float bias, float input_scale);

/// The numbers of a bias; scales: one for each element, or one for all.
std::vector<int32_t> quantize_bias(std::span<const float> bias, std::span<const float> scales);

}  // namespace fettle::quantize
