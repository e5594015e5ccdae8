#include "quantize/affine.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace fettle::quantize {
namespace {

TEST(Affine, HoldsTheRangeAndZero) {
  for (const ByteType type : {ByteType::kU8, ByteType::kS8})
    for (const Range range : {Range{-1, 3}, Range{2, 5}, Range{-7, -1}, Range{0, 6}}) {
      const Affine affine = affine_of(range, type);
      const int first = type == ByteType::kU8 ? 0 : -128;
      EXPECT_GE(affine.zero_point, first);
      EXPECT_LE(affine.zero_point, first + 255);
      const double step = affine.scale;
      EXPECT_NEAR((first - affine.zero_point) * step, std::min(range.least, 0.0), step / 2 + 1e-6);
      EXPECT_NEAR((first + 255 - affine.zero_point) * step, std::max(range.most, 0.0), step / 2 + 1e-6);
    }
  EXPECT_EQ(affine_of({0, 6}, ByteType::kU8).zero_point, 0);
  EXPECT_EQ(affine_of({0, 0}, ByteType::kU8).scale, 1);
}

TEST(Affine, WeightsHaveTheirChannelsScales) {
  // Channels along axis 1; an outlier spoils its own channel alone, and one is of zeros.
  const std::vector<float> weights = {0.5f, 100, 0, -1, 0.25f, 0};
  const std::vector<int64_t> shape = {2, 3};
  const QuantizedWeights made = quantize_weights(weights, shape, 1, {});
  EXPECT_EQ(made.numbers, (std::vector<int8_t>{64, 127, 0, -127, 0, 0}));
  EXPECT_EQ(made.scales, (std::vector<float>{1 / 127.f, 100 / 127.f, 1}));
  const QuantizedWeights whole = quantize_weights(weights, shape, -1, {});
  EXPECT_EQ(whole.numbers, (std::vector<int8_t>{1, 127, 0, -1, 0, 0}));
}

TEST(Affine, ScalesAreLargeEnoughForTheBias) {
  const std::vector<float> weights = {1e-12f, 0}, bias = {3, -5};
  const std::vector<int64_t> shape = {2, 1};
  const float input_scale = 0.01f;
  const LeastScales least = {least_scale(bias[0], input_scale), least_scale(bias[1], input_scale)};
  const QuantizedWeights made = quantize_weights(weights, shape, 0, least);
  std::vector<float> scales = made.scales;
  for (float& scale : scales) scale *= input_scale;
  const std::vector<int32_t> numbers = quantize_bias(bias, scales);
  for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(static_cast<double>(numbers[i]) * scales[i], bias[i], 1e-5);
}

TEST(Histogram, DoesNotDependOnTheOrder) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(1, 3);
  std::vector<float> values(20000);
  for (float& value : values) value = normal(random);
  values[77] = 90;
  Histogram forwards, backwards;
  forwards.add(std::span(values).first(5000));
  forwards.add(std::span(values).subspan(5000));
  backwards.add(std::span(values).subspan(5000));
  backwards.add(std::span(values).first(5000));
  for (const double percent : {50.0, 99.0, 99.9, 100.0}) {
    EXPECT_EQ(forwards.percentile(percent).least, backwards.percentile(percent).least);
    EXPECT_EQ(forwards.percentile(percent).most, backwards.percentile(percent).most);
  }
  EXPECT_EQ(forwards.percentile(100).most, 90);
}

TEST(Histogram, IsOffByABinAtMost) {
  std::mt19937 random(2);
  std::exponential_distribution<float> spread(0.5f);
  std::vector<float> values(50000);
  for (float& value : values) value = spread(random) - 1;
  Histogram histogram;
  histogram.add(values);
  std::vector<float> sorted = values;
  std::ranges::sort(sorted);
  const double distance = std::max(sorted.back(), 0.f) - std::min(sorted.front(), 0.f);
  EXPECT_LE(histogram.bin_width(), distance / 2047);
  for (const double percent : {80.0, 99.0, 99.9}) {
    const auto cut = static_cast<size_t>(50000 * (100 - percent) / 200);
    const Range range = histogram.percentile(percent);
    EXPECT_LE(range.least, sorted[cut]) << percent;
    EXPECT_GE(range.least, sorted[cut] - histogram.bin_width()) << percent;
    EXPECT_GE(range.most, sorted[sorted.size() - 1 - cut]) << percent;
    EXPECT_LE(range.most, sorted[sorted.size() - 1 - cut] + histogram.bin_width()) << percent;
  }
}

TEST(Histogram, SaysWhatIsNotFinite) {
  Histogram histogram;
  histogram.add(std::vector<float>{1, INFINITY, -2});
  EXPECT_TRUE(histogram.has_nonfinite());
  EXPECT_EQ(histogram.count(), 2);
  EXPECT_EQ(histogram.extremes().least, -2);
  histogram.add(std::vector<float>{1e30f, 3e38f, 1e-40f});
  EXPECT_EQ(histogram.percentile(100).most, 3e38f);
}

}  // namespace
}  // namespace fettle::quantize
