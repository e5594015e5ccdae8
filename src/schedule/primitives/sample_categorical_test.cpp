#include "schedule/primitives/sample_categorical.h"

#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 100: B[i] = A[i]";

TEST(SampleCategorical, FollowsTheProbabilities) {
  const Func func = schedule_from(kCopy).func();
  int counts[3] = {};
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    Schedule s(func, seed);
    auto v = sample_categorical(s, {{10, 20, 30}, {1.0, 0.0, 3.0}, "v"});
    ASSERT_OK(v);
    ++counts[*s.value(*v) / 10 - 1];
  }
  EXPECT_EQ(counts[1], 0);
  EXPECT_NEAR(counts[0], 1000, 150);
  EXPECT_EQ(counts[0] + counts[2], 4000);
}

TEST(SampleCategorical, DependsOnSeedAndAddressAlone) {
  const Func func = schedule_from(kCopy).func();
  const std::vector<int64_t> many = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const std::vector<double> weights(10, 1.0);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Schedule a(func, seed), b(func, seed);
    ASSERT_OK(sample_categorical(a, {many, weights, "first"}));
    auto in_a = sample_categorical(a, {many, weights, "second"});
    auto in_b = sample_categorical(b, {many, weights, "second"});
    EXPECT_EQ(*a.value(*in_a), *b.value(*in_b));
  }
}

TEST(SampleCategorical, IsRecordedAndReplayed) {
  auto s = schedule_from(kCopy, 3);
  s.set_address_prefix("tile/anchor");
  ASSERT_OK(sample_categorical(s, {{1, 2, 3, 4, 5, 6, 7, 8}, std::vector<double>(8, 1.0), "unroll"}));
  ASSERT_EQ(s.decisions().size(), 1u);
  EXPECT_EQ(s.decisions().begin()->first, "tile/anchor/unroll");
  EXPECT_REPLAYS(s);
}

TEST(SampleCategorical, E222ListsThatDoNotFit) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {1.0}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{}, {}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {1.0, -1.0}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {0.0, 0.0}, "v"}), E222);
}

TEST(SampleCategorical, E223ReplayedDecisionOutside) {
  auto s = schedule_from(kCopy);
  auto trace =
      parse_trace("v0 = sample_categorical(candidates=[1, 2], probabilities=[0.5, 0.5], name=\"v\")  # v: [2]");
  ASSERT_OK(trace);
  EXPECT_ERROR(replay(s, *trace), E223);
}

TEST(SampleCategorical, RememberedDecisionOutsideIsDrawnAnew) {
  const auto map = std::make_shared<DecisionMap>(DecisionMap{{"v", {7}}, {"w", {1}}});
  Schedule s(schedule_from(kCopy).func(), 0, map);
  auto v = sample_categorical(s, {{1, 2}, {0.5, 0.5}, "v"});
  ASSERT_OK(v);
  EXPECT_LE(*s.value(*v), 2);
  auto w = sample_categorical(s, {{1, 2}, {1.0, 0.0}, "w"});  // remembered, however unlikely
  ASSERT_OK(w);
  EXPECT_EQ(*s.value(*w), 2);
}

}  // namespace
}  // namespace fettle
