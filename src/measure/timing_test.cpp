#include "measure/timing.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <numeric>

namespace fettle {
namespace {

void spin(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
  }
}

TEST(Timing, MedianAndItsInterval) {
  std::vector<double> one = {3};
  EXPECT_EQ(median_interval(one).median, 3);
  std::vector<double> four = {4, 1, 3, 2};
  const MedianInterval small = median_interval(four);
  EXPECT_EQ(small.median, 2.5);
  EXPECT_EQ(small.low, 1);
  EXPECT_EQ(small.high, 4);
  std::vector<double> hundred(100);
  std::iota(hundred.begin(), hundred.end(), 1.0);
  const MedianInterval large = median_interval(hundred);
  EXPECT_EQ(large.median, 50.5);
  EXPECT_EQ(large.low, 41);  // the 41st and the 60th of a hundred
  EXPECT_EQ(large.high, 60);
}

TEST(Timing, CountsCallsInBatches) {
  int64_t calls = 0;
  TimingOptions options;
  options.max_samples = 7;
  options.target_half_width = 0;
  options.batch_s = 1e-3;
  const Timing timing = time_call([&] { return ++calls, spin(1e-4), 0; }, options);
  EXPECT_EQ(timing.calls, calls);
  EXPECT_EQ(timing.samples, 7);
  EXPECT_GT(calls, 7 + 2) << "fast calls are timed several at a time";
  EXPECT_GE(timing.min_s, 1e-4);
  EXPECT_LE(timing.min_s, timing.median_s);
  EXPECT_FALSE(timing.raced_out);
}

TEST(Timing, StopsWhenPlainlySlower) {
  int64_t calls = 0;
  const auto call = [&] { return ++calls, spin(1e-3), 0; };
  Timing timing = time_call(call, {.incumbent_s = 1e-4});
  EXPECT_TRUE(timing.raced_out);
  EXPECT_EQ(calls, 2);
  EXPECT_GE(timing.median_s, 1e-3);
  calls = 0;
  timing = time_call(call, {.incumbent_s = 0.8e-3});
  EXPECT_TRUE(timing.raced_out);
  EXPECT_LE(calls, 5);
  timing = time_call(call, {.incumbent_s = 1e3});
  EXPECT_FALSE(timing.raced_out);
}

TEST(Timing, EndsWithItsTime) {
  const auto begin = std::chrono::steady_clock::now();
  const Timing timing = time_call([&] { return spin(5e-3), 0; }, {.target_half_width = 0, .max_seconds = 0.05});
  EXPECT_GE(timing.samples, 3);
  EXPECT_LT(timing.samples, 300);
  EXPECT_GE(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(50));
}

TEST(Timing, GivesUpWhenACallFails) {
  for (const int64_t bad : {1, 2, 3, 6}) {
    int64_t calls = 0;
    EXPECT_EQ(time_call([&]() -> int32_t { return ++calls == bad ? -5 : 0; }, {}).status, -5);
    EXPECT_EQ(calls, bad);
  }
}

}  // namespace
}  // namespace fettle
