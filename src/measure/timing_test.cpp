#include "measure/timing.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

TEST(Timing, ThePaceOfAQuietMachine) {
  std::vector<double> few = {0.5, 0.5};
  EXPECT_EQ(quiet_pace(few), 1) << "that says nothing yet";
  std::vector<double> busy_at_first(20, 0.9);
  busy_at_first[3] = 0.1;  // an accident
  busy_at_first[4] = busy_at_first[7] = 0.6;
  EXPECT_EQ(quiet_pace(busy_at_first), 0.6);
  std::vector<double> busy_later(20, 1.7);
  EXPECT_EQ(quiet_pace(busy_later), 1);
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

TEST(Timing, ColdCachesMeanSingleCalls) {
  int64_t calls = 0;
  TimingOptions options;
  options.max_samples = 7;
  options.target_half_width = 0;
  options.batch_s = 1e-3;
  options.flush_bytes = int64_t{1} << 20;
  const Timing timing = time_call([&] { return ++calls, spin(1e-6), 0; }, options);
  EXPECT_EQ(timing.samples, 7);
  EXPECT_LE(calls, 7 + 2);
}

TEST(Timing, StopsWhenPlainlySlower) {
  int64_t calls = 0;
  const auto call = [&] { return ++calls, spin(1e-3), 0; };
  Timing timing = time_call(call, {.incumbent_s = 1e-4});
  EXPECT_TRUE(timing.raced_out);
  EXPECT_EQ(calls, 2);
  EXPECT_GE(timing.median_s, 1e-3);
  calls = 0;
  timing = time_call([&] { return ++calls, spin(30e-3), 0; }, {.incumbent_s = 1e-3});
  EXPECT_TRUE(timing.raced_out);
  EXPECT_EQ(calls, 1) << "a first call so slow says enough";
  EXPECT_GE(timing.median_s, 30e-3);
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

// A machine that sleeps during some calls: they seem to take long, or no time at all.
double fake_awake = 0, fake_asleep = 0;

TEST(Timing, WhatSpansASleepIsTakenAgain) {
  fake_awake = fake_asleep = 0;
  const Clocks clocks{[] { return fake_awake; }, [] { return fake_asleep; }};
  int calls = 0;
  const auto call = [&]() -> int32_t {
    const bool sleeps = ++calls % 7 == 3;
    fake_awake += sleeps ? 0.5 : 1e-3;  // it wakes up slowly
    fake_asleep += sleeps ? 3600 : 0;
    return 0;
  };
  const Timing timing = time_call(call, {.min_samples = 12, .max_samples = 12, .max_seconds = 100}, clocks);
  EXPECT_NEAR(timing.median_s, 1e-3, 1e-9);
  EXPECT_LT(timing.half_width, 1e-6) << "one of the samples is not what the others are";
  EXPECT_GT(timing.calls, 13);
}

// A machine with neighbours: for 5 ms of every 12 all that runs takes twice as long.
struct SharedMachine {
  SharedMachine() { fake_awake = fake_asleep = 0; }
  static int32_t work(double seconds) {
    for (double left_s = seconds; left_s > 1e-9;) {
      const double into_s = std::fmod(fake_awake, 12e-3), pace = into_s < 5e-3 ? 2 : 1;
      const double took_s = std::max(std::min(left_s * pace, (pace > 1 ? 5e-3 : 12e-3) - into_s), 1e-9);
      left_s -= took_s / pace;
      fake_awake += took_s;
    }
    return 0;
  }
  static Timing beside(double call_s, double reference_s, const TimingOptions& options) {
    const Clocks clocks{[] { return fake_awake; }, [] { return fake_asleep; }};
    return time_beside([=] { return work(call_s); }, [=] { return work(reference_s); }, options, clocks);
  }
};

TEST(TimingBeside, WhatSlowsBothIsNotTheCandidates) {
  const SharedMachine machine;
  // The best was found when nothing else ran; alone, this candidate would seem 40 % slower.
  const Timing better = SharedMachine::beside(0.95e-4, 1e-4, {.incumbent_s = 0.96e-4, .reference_s = 1e-4});
  EXPECT_FALSE(better.raced_out);
  EXPECT_NEAR(better.median_s, 0.95e-4, 1e-6);
  EXPECT_EQ(better.min_s, better.median_s);
  EXPECT_LE(better.half_width, 0.02);
  EXPECT_LT(better.samples, 60);
  // Found while all was slow, it counts as what it took then.
  const Timing same = SharedMachine::beside(1e-4, 1e-4, {.incumbent_s = 1.8e-4, .reference_s = 1.8e-4});
  EXPECT_FALSE(same.raced_out);
  EXPECT_NEAR(same.median_s, 1.8e-4, 2e-6);
  EXPECT_GT(same.pace, 0.5);
  EXPECT_LT(same.pace, 1.2);
}

TEST(TimingBeside, WhatIsPlainlySlowerIsRacedOut) {
  const SharedMachine machine;
  const Timing slower =
      SharedMachine::beside(1.2e-4, 1e-4, {.incumbent_s = 1e-4, .reference_s = 1e-4, .target_half_width = 0});
  EXPECT_TRUE(slower.raced_out);
  EXPECT_LT(slower.samples, 10);
  EXPECT_NEAR(slower.median_s, 1.2e-4, 5e-6);
  const Timing much = SharedMachine::beside(2.5e-4, 2e-4, {.incumbent_s = 1e-4, .reference_s = 2e-4});
  EXPECT_TRUE(much.raced_out);
  EXPECT_EQ(much.samples, 1);
  int64_t others = 0;
  const Timing hopeless = time_beside([] { return spin(1e-3), 0; }, [&] { return ++others, spin(1e-4), 0; },
                                      {.incumbent_s = 1e-4, .reference_s = 1});
  EXPECT_TRUE(hopeless.raced_out);
  EXPECT_EQ(others, 0) << "for this the reference need not run";
}

TEST(TimingBeside, GivesUpWhenEitherFails) {
  for (const int64_t bad : {1, 2, 3, 6}) {
    int64_t calls = 0;
    const auto fails = [&]() -> int32_t { return spin(2e-4), ++calls == bad ? -5 : 0; };
    const auto works = [] { return spin(2e-4), 0; };
    EXPECT_EQ(time_beside(fails, works, {.reference_s = 1, .target_half_width = 0}).status, -5);
    EXPECT_EQ(calls, bad);
    calls = 0;
    EXPECT_EQ(time_beside(works, fails, {.reference_s = 1, .target_half_width = 0}).status, -5);
    EXPECT_EQ(calls, bad);
  }
}

TEST(Timing, TheSystemsClocksRun) {
  const Clocks clocks = system_clocks();
  const double awake = clocks.awake_s(), asleep = clocks.asleep_s();
  ::usleep(2000);
  EXPECT_GT(clocks.awake_s(), awake + 1e-3);
  EXPECT_NEAR(clocks.asleep_s(), asleep, 0.5);
}

}  // namespace
}  // namespace fettle
