#include "harness/paired.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace fettle::bench {
namespace {

Round round_of(std::vector<double> time_ns, double peak) {
  Round round;
  round.peak_gflops.assign(time_ns.size(), peak);
  round.time_ns = std::move(time_ns);
  round.lowest_peak = peak;
  return round;
}

PairedResult result_of(std::vector<Round> rounds, std::vector<double> flops) {
  PairedResult result;
  result.names.assign(flops.size(), "x");
  result.flops = std::move(flops);
  result.runs_a_batch.assign(result.flops.size(), 1);
  result.rounds = std::move(rounds);
  return result;
}

TEST(PairedResultTest, RatiosArePairedSoThatDriftCancels) {
  // The machine slows down threefold over the run; b always takes 1.25 times as long as a.
  std::vector<Round> rounds;
  for (int i = 0; i < 20; ++i) {
    const double a = 100.0 * (1 + 0.1 * i);
    rounds.push_back(round_of({a, 1.25 * a}, 200.0 / (1 + 0.1 * i)));
  }
  const PairedResult result = result_of(rounds, {10000, 10000});
  EXPECT_DOUBLE_EQ(result.speed_over(0, 1).median, 1.25);
  EXPECT_NEAR(result.speed_over(0, 1).half_width, 0, 1e-12);
  EXPECT_DOUBLE_EQ(result.speed_over(1, 0).median, 0.8);
  EXPECT_DOUBLE_EQ(result.of_peak(0).median, 0.5);
  EXPECT_NEAR(result.of_peak(0).half_width, 0, 1e-12);
  EXPECT_GT(result.time_ns(0).half_width, 0.1);
  EXPECT_EQ(result.time_ns(0).min, 100);
  EXPECT_DOUBLE_EQ(result.gflops(0), 10000 / result.time_ns(0).median);
}

TEST(QuietRounds, DropsThoseWherePeakFell) {
  std::vector<Round> rounds;
  for (int i = 0; i < 20; ++i) rounds.push_back(round_of({static_cast<double>(i)}, i % 4 == 3 ? 80.0 : 100.0));
  const auto kept = quiet_rounds(rounds, 0.97, 10);
  ASSERT_EQ(kept.size(), 15U);
  for (const Round& round : kept) EXPECT_EQ(round.lowest_peak, 100);
  EXPECT_EQ(kept.front().time_ns[0], 0);
  EXPECT_EQ(kept.back().time_ns[0], 18);
}

TEST(QuietRounds, KeepsTheLeastDisturbedWhereFewAreQuiet) {
  std::vector<Round> rounds;
  for (int i = 0; i < 20; ++i) rounds.push_back(round_of({1.0}, i < 3 ? 100.0 : 50.0 + i));
  const auto kept = quiet_rounds(rounds, 0.97, 5);
  ASSERT_EQ(kept.size(), 5U);
  EXPECT_EQ(kept[3].lowest_peak, 68);
  EXPECT_EQ(kept[4].lowest_peak, 69);
  EXPECT_EQ(quiet_rounds({}, 0.97, 5).size(), 0U);
}

Contender remote(double ns, std::vector<int>* asked) {
  return {.name = "remote", .run = {}, .flops = 1000, .timed = [=](int runs) -> Result<double> {
            asked->push_back(runs);
            return ns;
          }};
}

TEST(TimePaired, BatchesRemoteWorkAndComparesIt) {
  PeakMeter peak(1);
  std::vector<int> asked_a;
  std::vector<int> asked_b;
  const Contender contenders[] = {remote(1e5, &asked_a), remote(2e5, &asked_b)};
  const auto result =
      time_paired(contenders, peak, {.batch_ns = 1e6, .min_rounds = 8, .max_rounds = 8, .time_limit_s = 60});
  ASSERT_TRUE(result) << result.error().to_string();
  EXPECT_EQ(result->runs_a_batch, (std::vector<int>{10, 5}));
  EXPECT_EQ(result->speed_over(0, 1).median, 2);
  EXPECT_EQ(result->rounds.size() + static_cast<std::size_t>(result->discarded), 8U);
  EXPECT_EQ(std::count(asked_a.begin(), asked_a.end(), 10), 8);
  EXPECT_EQ(std::count(asked_b.begin(), asked_b.end(), 5), 8);
}

TEST(TimePaired, RunsLocalWorkInEveryRound) {
  PeakMeter peak(2);
  int runs = 0;
  const Contender contenders[] = {{.name = "local", .run = [&] { ++runs; }, .flops = 1}};
  const auto result =
      time_paired(contenders, peak, {.batch_ns = 1e4, .peak_slice_ns = 1e4, .min_rounds = 3, .max_rounds = 3});
  ASSERT_TRUE(result);
  EXPECT_GE(runs, 3 * (result->runs_a_batch[0] + 1));
  EXPECT_GT(result->time_ns(0).min, 0);
  EXPECT_GT(result->peak_gflops().min, 0);
}

TEST(TimePaired, PlacesTakeTurns) {
  PeakMeter peak(1);
  int runs[3] = {0, 0, 0};
  std::vector<Contender> places;
  for (int& count : runs) places.push_back({.name = "place", .run = [&count] { ++count; }, .flops = 1});
  const Contender contenders[] = {in_turn(places)};
  const auto result = time_paired(
      contenders, peak, {.batch_ns = 1, .peak_slice_ns = 1e4, .min_rounds = 6, .max_rounds = 6, .min_kept = 6});
  ASSERT_TRUE(result);
  EXPECT_EQ(runs[1], runs[2]);
  EXPECT_GE(runs[1], 2 * (result->runs_a_batch[0] + 1));
  EXPECT_GT(runs[0], runs[1]);  // its size was found there
  EXPECT_GE(result->of_peak_in_best(0, 3), result->of_peak(0).median);
}

TEST(TimePaired, HandsOnAnError) {
  PeakMeter peak(1);
  const Contender contenders[] = {
      {.name = "broken", .run = {}, .timed = [](int) -> Result<double> { return fail(ErrorCode::E708, "gone"); }}};
  const auto result = time_paired(contenders, peak);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::E708);
}

}  // namespace
}  // namespace fettle::bench
