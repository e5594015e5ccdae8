#include "schedule/state.h"

#include <set>

#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 4096: B[i] = A[i]";

TEST(State, ShowsProgramAndTrace) {
  auto s = schedule_from("for i in 12: B[i] = A[i]");
  ASSERT_OK(split(s, {s.loop("i"), {3, 4}}));
  EXPECT_GOLDEN(show(s));
}

TEST(State, ACopyGoesItsOwnWay) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  auto copy = s;
  ASSERT_OK(split(copy, {i, {64, 64}}));
  EXPECT_EQ(copy.trace().size(), s.trace().size() + 1);
  EXPECT_TRUE(structural_equal(s.func(), s.original));
}

TEST(State, ForksSampleIndependently) {
  auto s = schedule_from(kCopy, 9);
  const LoopRef i = s.loop("i");
  auto first = sample_perfect_tile(s, {i, 3, 0, "before"});
  ASSERT_OK(first);
  std::set<std::vector<int64_t>> seen;
  for (uint64_t number = 0; number < 12; ++number) {
    auto forked = fork(s, s.original, number);
    ASSERT_OK(forked);
    EXPECT_EQ(to_text(forked->trace()), to_text(s.trace()));  // what was decided stays
    auto values = sample_perfect_tile(*forked, {i, 3, 0, "after"});
    ASSERT_OK(values);
    std::vector<int64_t> factors;
    for (const ValueRef& v : *values) factors.push_back(forked->value(v).value());
    seen.insert(factors);
    auto again = fork(s, s.original, number);
    ASSERT_OK(again);
    EXPECT_EQ(again->seed(), forked->seed());
  }
  EXPECT_GT(seen.size(), 4u);
  EXPECT_NE(fork_seed(s, 1), fork_seed(s, 2));
  EXPECT_NE(fork_seed(s, 1), s.seed());
}

}  // namespace
}  // namespace fettle
