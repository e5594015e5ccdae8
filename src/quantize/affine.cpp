#include "quantize/affine.h"

#include <algorithm>
#include <cmath>

namespace fettle::quantize {
namespace {

/// So small that products of two are still normal floats.
constexpr float kLeastScale = 0x1p-60f;
constexpr double kMostBias = 0x1p30;

/// Nearest, halves to even, as QuantizeLinear has it.
template <class T>
T rounded(double number, double least, double most) {
  return static_cast<T>(std::clamp(std::nearbyint(number), least, most));
}

}  // namespace

Affine affine_of(Range range, ByteType type) {
  const double least = std::min(range.least, 0.0), most = std::max(range.most, 0.0);
  const double first = type == ByteType::kU8 ? 0 : -128;
  const auto scale = static_cast<float>((most - least) / 255);
  if (scale < kLeastScale) return {1, static_cast<int>(first)};
  return {scale, rounded<int>(first - least / scale, first, first + 255)};
}

QuantizedWeights quantize_weights(std::span<const float> weights, std::span<const int64_t> shape, int axis,
                                  const LeastScales& least) {
  size_t inner = weights.size(), channels = 1;
  if (axis >= 0) {
    inner = 1;
    for (size_t d = static_cast<size_t>(axis) + 1; d < shape.size(); ++d) inner *= static_cast<size_t>(shape[d]);
    channels = static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  }
  const auto channel_of = [&](size_t i) { return i / inner % channels; };
  std::vector<float> largest(channels);
  for (size_t i = 0; i < weights.size(); ++i) {
    float& most = largest[channel_of(i)];
    most = std::max(most, std::abs(weights[i]));
  }
  QuantizedWeights made{.scales = std::vector<float>(channels), .numbers = std::vector<int8_t>(weights.size())};
  for (size_t c = 0; c < channels; ++c) {
    float& scale = made.scales[c];
    scale = largest[c] / 127;
    if (!least.empty()) scale = std::max(scale, least[least.size() == 1 ? 0 : c]);
    if (scale < kLeastScale) scale = largest[c] == 0 && scale == 0 ? 1 : kLeastScale;
  }
  for (size_t i = 0; i < weights.size(); ++i)
    made.numbers[i] = rounded<int8_t>(weights[i] / made.scales[channel_of(i)], -127, 127);
  return made;
}

float least_scale(float bias, float input_scale) {
  return static_cast<float>(std::abs(static_cast<double>(bias)) / (static_cast<double>(input_scale) * kMostBias));
}

std::vector<int32_t> quantize_bias(std::span<const float> bias, std::span<const float> scales) {
  std::vector<int32_t> numbers(bias.size());
  for (size_t i = 0; i < bias.size(); ++i)
    numbers[i] = rounded<int32_t>(
        static_cast<double>(bias[i]) / static_cast<double>(scales[scales.size() == 1 ? 0 : i]), INT32_MIN, INT32_MAX);
  return numbers;
}

}  // namespace fettle::quantize
