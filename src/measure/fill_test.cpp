#include "measure/fill.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace fettle {
namespace {

TEST(Fill, FloatsAreEighthsAndNeverZero) {
  std::vector<float> values(1000);
  fill_random(values.data(), 1000, kF32, 3, 0);
  for (const float v : values) {
    EXPECT_NE(v, 0.0f);
    EXPECT_LE(v, 1.0f);
    EXPECT_GE(v, -1.0f);
    EXPECT_EQ(v * 8, static_cast<float>(static_cast<int>(v * 8)));
  }
}

TEST(Fill, HalvesHoldTheSameValues) {
  std::vector<float> values(64);
  std::vector<uint16_t> halves(64), brains(64);
  fill_random(values.data(), 64, kF32, 3, 0);
  fill_random(halves.data(), 64, kF16, 3, 0);
  fill_random(brains.data(), 64, kBF16, 3, 0);
  for (size_t i = 0; i < 64; ++i) {
    const float mantissa = 1.0f + static_cast<float>(halves[i] & 0x3ff) / 1024.0f;
    const float half = std::ldexp(mantissa, ((halves[i] >> 10) & 31) - 15) * (halves[i] & 0x8000 ? -1.0f : 1.0f);
    EXPECT_EQ(half, values[i]);
    const uint32_t bits = uint32_t{brains[i]} << 16;
    float brain;
    std::memcpy(&brain, &bits, 4);
    EXPECT_EQ(brain, values[i]);
  }
}

}  // namespace
}  // namespace fettle
