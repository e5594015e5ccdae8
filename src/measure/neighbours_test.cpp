#include "measure/neighbours.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "measure/timing.h"

namespace fettle {
namespace {

using Calls = std::vector<std::vector<Neighbours::Call>>;

TEST(Neighbours, RunWhatIsTimedAllTheWhile) {
  constexpr size_t kRows = 2;
  std::atomic<int> running[2] = {0, 0}, begun{0};
  std::atomic<int64_t> calls[kRows] = {0, 0};
  const auto entry = [&](size_t row, int kind) -> Neighbours::Call {
    return [&, row, kind] {
      ++running[kind];
      ++calls[row];
      std::this_thread::sleep_for(std::chrono::microseconds(200));
      --running[kind];
      return 0;
    };
  };
  Calls all;
  for (size_t row = 0; row < kRows; ++row) all.push_back({entry(row, 0), entry(row, 1)});
  const auto started = Neighbours::start(std::move(all), [&](size_t) { ++begun; });
  ASSERT_TRUE(started);
  Neighbours& neighbours = **started;
  EXPECT_EQ(begun, 2);
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_EQ(neighbours.calls(), 0) << "nothing is timed yet";

  int others = 0;  // samples of which a neighbour still ran the other kind
  const auto timed = [&](int kind) {
    const auto call = [&, kind] {
      others += running[1 - kind].load();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return 0;
    };
    return by_clock(call, {}, system_clocks(), [&neighbours, kind] { neighbours.turn_to(kind); });
  };
  const Timing timing = time_beside(timed(0), timed(1), {.reference_s = 1, .max_samples = 5, .max_seconds = 0.2});
  EXPECT_EQ(timing.status, 0);
  neighbours.stop();
  EXPECT_EQ(others, 0);
  EXPECT_EQ(running[0] + running[1], 0) << "what was begun has ended";
  for (const auto& of_row : calls) EXPECT_GT(of_row, 5);
  EXPECT_EQ(neighbours.calls(), calls[0] + calls[1]);
  EXPECT_EQ(neighbours.status(), 0);
}

TEST(Neighbours, OneFailureIsTold) {
  std::atomic<int> calls{0};
  const auto good = [] { return 0; };
  const auto bad = [&] { return ++calls == 3 ? 7 : 0; };
  const auto started = Neighbours::start({{good}, {bad}});
  ASSERT_TRUE(started);
  (*started)->turn_to(0);
  while ((*started)->status() == 0) std::this_thread::yield();
  EXPECT_EQ((*started)->status(), 7);
  (*started)->turn_to(0);  // does not wait for who has left
  EXPECT_EQ(calls, 3);
}

TEST(Neighbours, NoneAreFine) {
  const auto started = Neighbours::start({});
  ASSERT_TRUE(started);
  (*started)->turn_to(0);
  EXPECT_EQ((*started)->calls(), 0);
}

}  // namespace
}  // namespace fettle
