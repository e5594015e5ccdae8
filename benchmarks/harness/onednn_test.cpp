#include "harness/onednn.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace fettle::bench {
namespace {

/// Small integers, so that every sum is exact.
std::vector<float> integers(std::size_t count, int seed) {
  std::vector<float> out(count);
  for (std::size_t i = 0; i < count; ++i) out[i] = static_cast<float>((static_cast<int>(i) * 7 + seed * 13) % 11 - 5);
  return out;
}

TEST(OnednnMatmul, MatchesTheDefinition) {
  const MatmulProblem p{.m = 5, .n = 37, .k = 19, .bias = true, .relu = true};
  auto op = OnednnOp::matmul(p);
  ASSERT_TRUE(op) << op.error().to_string();
  const auto a = integers(5 * 19, 1);
  const auto b = integers(19 * 37, 2);
  const auto bias = integers(37, 3);
  op->load(a, b, bias);
  op->run();
  std::vector<float> c(5 * 37);
  op->store(c);
  for (std::size_t i = 0; i < 5; ++i) {
    for (std::size_t j = 0; j < 37; ++j) {
      float sum = bias[j];
      for (std::size_t k = 0; k < 19; ++k) sum += a[i * 19 + k] * b[k * 37 + j];
      ASSERT_EQ(c[i * 37 + j], std::max(sum, 0.0F)) << i << "," << j;
    }
  }
  EXPECT_EQ(op->flops(), 2.0 * 5 * 37 * 19);
}

void check_conv(const ConvProblem& p) {
  auto op = OnednnOp::convolution(p, 2);
  ASSERT_TRUE(op) << op.error().to_string();
  const auto group_in = p.channels_in / p.groups;
  const auto group_out = p.channels_out / p.groups;
  const auto source = integers(static_cast<std::size_t>(p.channels_in * p.height * p.width), 1);
  const auto weights = integers(static_cast<std::size_t>(p.channels_out * group_in * p.kernel * p.kernel), 2);
  const auto bias = p.bias ? integers(static_cast<std::size_t>(p.channels_out), 3) : std::vector<float>();
  op->load(source, weights, bias);
  op->run();
  std::vector<float> out(static_cast<std::size_t>(p.channels_out * p.height_out() * p.width_out()));
  op->store(out);
  for (std::int64_t o = 0; o < p.channels_out; ++o) {
    for (std::int64_t y = 0; y < p.height_out(); ++y) {
      for (std::int64_t x = 0; x < p.width_out(); ++x) {
        float sum = p.bias ? bias[static_cast<std::size_t>(o)] : 0;
        for (std::int64_t i = 0; i < group_in; ++i) {
          for (std::int64_t u = 0; u < p.kernel; ++u) {
            for (std::int64_t v = 0; v < p.kernel; ++v) {
              const auto row = y * p.stride + u - p.padding;
              const auto column = x * p.stride + v - p.padding;
              if (row < 0 || row >= p.height || column < 0 || column >= p.width) continue;
              const auto channel = o / group_out * group_in + i;
              sum += source[static_cast<std::size_t>((channel * p.height + row) * p.width + column)] *
                     weights[static_cast<std::size_t>(((o * group_in + i) * p.kernel + u) * p.kernel + v)];
            }
          }
        }
        if (p.relu) sum = std::max(sum, 0.0F);
        ASSERT_EQ(out[static_cast<std::size_t>((o * p.height_out() + y) * p.width_out() + x)], sum)
            << o << "," << y << "," << x;
      }
    }
  }
}

TEST(OnednnConvolution, PaddedAndStrided) {
  check_conv({.channels_in = 3, .height = 11, .width = 9, .channels_out = 20, .kernel = 3, .stride = 2, .padding = 1});
}

TEST(OnednnConvolution, BiasAndRelu) {
  check_conv({.channels_in = 16, .height = 7, .width = 7, .channels_out = 32, .kernel = 1, .bias = true, .relu = true});
}

TEST(OnednnConvolution, Depthwise) {
  check_conv({.channels_in = 24, .height = 8, .width = 8, .channels_out = 24, .kernel = 5, .padding = 2, .groups = 24});
}

TEST(Onednn, RefusesWhatHasNoMeaning) {
  const auto op = OnednnOp::convolution({.channels_in = 3, .height = 2, .width = 2, .channels_out = 4, .kernel = 7});
  ASSERT_FALSE(op);
  EXPECT_EQ(op.error().code, ErrorCode::E708);
}

}  // namespace
}  // namespace fettle::bench
