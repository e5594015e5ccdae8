#include "measure/compare.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ir/text.h"

namespace fettle {
namespace {

constexpr int64_t kShape[] = {2, 3};

std::optional<std::string> differ(std::vector<float> a, std::vector<float> b, double tolerance) {
  return find_difference("C", kShape, kF32, a.data(), b.data(), tolerance);
}

TEST(Compare, ToleranceIsOfScale) {
  const std::vector<float> reference = {100, 1, 2, 3, 4, 5};
  EXPECT_FALSE(differ(reference, reference, 0));
  std::vector<float> near = reference;
  near[1] = 1.0009f;
  EXPECT_FALSE(differ(near, reference, 1e-5));
  EXPECT_EQ(*differ(near, reference, 1e-6), "C[0, 1] is 1.00090003 instead of 1");
  near[5] = 6;
  EXPECT_EQ(*differ(near, reference, 1e-6), "C[0, 1] is 1.00090003 instead of 1 (and 1 more of 6 elements differ)");
}

TEST(Compare, NotANumber) {
  const float nan = NAN, inf = INFINITY;
  EXPECT_FALSE(differ({nan, inf, -inf, 1, 1, 1}, {-nan, inf, -inf, 1, 1, 1}, 1e-4));
  EXPECT_TRUE(differ({nan, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1}, 1e-4));
  EXPECT_TRUE(differ({1, 1, 1, 1, 1, 1}, {nan, 1, 1, 1, 1, 1}, 1e-4));
  EXPECT_TRUE(differ({inf, 1, 1, 1, 1, 1}, {-inf, 1, 1, 1, 1, 1}, 1e-4));
  EXPECT_TRUE(differ({inf, 1, 1, 1, 1, 1}, {5, 1, 1, 1, 1, 1}, 1e-4));
}

TEST(Compare, IntegersAreExact) {
  const std::vector<int32_t> a = {1, 2, 3, 4, 5, 6}, b = {1, 2, 3, 4, 5, 7};
  EXPECT_TRUE(find_difference("C", kShape, kI32, a.data(), b.data(), 0));
  EXPECT_FALSE(find_difference("C", kShape, kI32, a.data(), a.data(), 0));
}

TEST(Compare, ToleranceOfAProgram) {
  const auto exact = parse_loops("for i in 8: B[i] = A[i] * A[i] + max(A[i], 0.0)");
  const auto rounds = parse_loops("for i in 8: B[i] = exp(A[i])");
  const auto divides = parse_loops("for i in 8: B[i] = A[i] / 3.0");
  ASSERT_TRUE(exact && rounds && divides);
  EXPECT_EQ(tolerance_of_scale(*exact, kF32), 1e-5);
  EXPECT_EQ(tolerance_of_scale(*rounds, kF32), 1e-4);
  EXPECT_EQ(tolerance_of_scale(*divides, kF32), 1e-4);
  EXPECT_EQ(tolerance_of_scale(*exact, kBF16), 2e-2);
  EXPECT_EQ(tolerance_of_scale(*rounds, kI8), 0);
}

TEST(Compare, ToleranceOfAnApproximateAlgorithm) {
  const auto exact = parse_loops("for i in 8: B[i] = A[i] * A[i]");
  ASSERT_TRUE(exact);
  EXPECT_EQ(tolerance_of_scale(*exact, kF32, 100), 1e-5);
  EXPECT_NEAR(tolerance_of_scale(*exact, kF32, 24832), 1.9e-5, 1e-6);  // F(4x4, 3x3) of 64 channels
  EXPECT_EQ(tolerance_of_scale(*exact, kF32, 1e9), 1e-4);
}

}  // namespace
}  // namespace fettle
