#include "harness/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <vector>

namespace fettle::bench {
namespace {

std::vector<double> one_to(int n) {
  std::vector<double> samples(static_cast<std::size_t>(n));
  std::iota(samples.begin(), samples.end(), 1.0);
  return samples;
}

TEST(Quantile, InterpolatesBetweenNeighbours) {
  EXPECT_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0.5), 2.5);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 0), 1);
  EXPECT_EQ(quantile({4, 1, 3, 2}, 1), 4);
  EXPECT_DOUBLE_EQ(quantile({0, 10}, 0.9), 9);
  EXPECT_TRUE(std::isnan(quantile({}, 0.5)));
}

// Published tables of the sign test's interval for the median at 95 %.
TEST(MedianInterval, RanksAreThoseOfTheSignTest) {
  EXPECT_EQ(median_interval_rank(0), 0U);
  EXPECT_EQ(median_interval_rank(5), 0U);
  EXPECT_EQ(median_interval_rank(6), 1U);
  EXPECT_EQ(median_interval_rank(8), 1U);
  EXPECT_EQ(median_interval_rank(9), 2U);
  EXPECT_EQ(median_interval_rank(10), 2U);
  EXPECT_EQ(median_interval_rank(15), 4U);
  EXPECT_EQ(median_interval_rank(20), 6U);
  EXPECT_EQ(median_interval_rank(25), 8U);
  EXPECT_EQ(median_interval_rank(50), 18U);
  EXPECT_EQ(median_interval_rank(100), 40U);
}

TEST(EstimateTest, HalfWidthIsRelativeToTheMedian) {
  const Estimate e = estimate(one_to(10));  // interval 2 .. 9
  EXPECT_EQ(e.median, 5.5);
  EXPECT_DOUBLE_EQ(e.half_width, 3.5 / 5.5);
  EXPECT_EQ(e.min, 1);
  EXPECT_EQ(e.max, 10);
  EXPECT_EQ(e.samples, 10U);
}

TEST(EstimateTest, FewSamplesGiveTheWholeRange) {
  EXPECT_DOUBLE_EQ(estimate({10, 9, 11}).half_width, 0.1);
  EXPECT_TRUE(std::isinf(estimate({10}).half_width));
  EXPECT_TRUE(std::isnan(estimate({}).median));
}

TEST(EstimateTest, OutliersDoNotMoveIt) {
  auto samples = std::vector<double>(40, 2.0);
  for (int i = 0; i < 5; ++i) samples[static_cast<std::size_t>(i)] = 1000;
  const Estimate e = estimate(samples);
  EXPECT_EQ(e.median, 2);
  EXPECT_EQ(e.half_width, 0);
}

TEST(RankCorrelation, OrdersAndTies) {
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {10, 20, 300, 4000}), 1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4}, {4, 3, 2, 1}), -1);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 2, 3, 4, 5}, {2, 1, 4, 3, 5}), 0.8);
  EXPECT_DOUBLE_EQ(rank_correlation({1, 1, 2}, {5, 5, 9}), 1);
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2}, {3, 3})));
  EXPECT_TRUE(std::isnan(rank_correlation({1, 2}, {1, 2, 3})));
}

}  // namespace
}  // namespace fettle::bench
