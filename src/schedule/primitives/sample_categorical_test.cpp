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
  // By its value.
  EXPECT_EQ(s.decisions().begin()->second, std::to_string(*s.value(s.values_of(0).front())));
  EXPECT_REPLAYS(s);
}

TEST(SampleCategorical, NamesAreRecordedAndReplayed) {
  std::set<std::string> seen;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto s = schedule_from(kCopy, seed);
    const SampleCategoricalArgs args{std::vector<std::string>{"14x2", "7+2x2", "none,unroll"}, {1, 1, 1}, "tile"};
    ASSERT_OK(s.step(sample_categorical_def, args));
    EXPECT_TRUE(s.values_of(0).empty());
    const std::string chosen = s.decisions().at("tile").value();
    EXPECT_EQ(args.candidates.name(chosen_place(*s.trace().steps[0])), chosen);
    EXPECT_NE(to_text(s.trace()).find("# tile: " + chosen + "\n"), std::string::npos);
    EXPECT_REPLAYS(s);
    seen.insert(chosen);
  }
  EXPECT_EQ(seen.size(), 3u);
}

// Before decisions were values, they were places in the list of candidates.
TEST(SampleCategorical, APlaceInAnOldTraceIsTheValueThatStandsThere) {
  auto s = schedule_from(kCopy);
  const auto trace =
      parse_trace("v0 = sample_categorical(candidates=[4, 0], probabilities=[0.5, 0.5], name=\"v\")  # v: [1]");
  ASSERT_OK(trace);
  ASSERT_OK(replay(s, *trace));
  EXPECT_EQ(s.decisions().at("v"), "0");
  EXPECT_EQ(*s.value(s.values_of(0).front()), 0);
  EXPECT_REPLAYS(s);
}

TEST(SampleCategorical, AnOldPlaceInAMapIsNoDecision) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Func func = schedule_from(kCopy).func();
    Schedule given(func, seed, std::make_shared<DecisionMap>(DecisionMap{{"v", {1}}})), drawn(func, seed);
    for (Schedule* s : {&given, &drawn}) ASSERT_OK(sample_categorical(*s, {{4, 1, 0}, {1.0, 1.0, 1.0}, "v"}));
    EXPECT_EQ(given.decisions(), drawn.decisions());
  }
}

// A list that is ordered anew says the same.
TEST(SampleCategorical, ADecisionIsAValueWhereverItStands) {
  const auto map = std::make_shared<DecisionMap>(DecisionMap{{"v", "16"}});
  for (const std::vector<int64_t>& candidates : {std::vector<int64_t>{1, 16, 64}, {64, 32, 16, 8}}) {
    Schedule s(schedule_from(kCopy).func(), 0, map);
    const auto v = sample_categorical(s, {candidates, std::vector<double>(candidates.size(), 1.0), "v"});
    ASSERT_OK(v);
    EXPECT_EQ(*s.value(*v), 16);
  }
}

TEST(SampleCategorical, E222ListsThatDoNotFit) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {1.0}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{}, {}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {1.0, -1.0}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{1, 2}, {0.0, 0.0}, "v"}), E222);
  EXPECT_ERROR(sample_categorical(s, {{1, 2, 1}, {1.0, 1.0, 1.0}, "v"}), E222);
  for (const char* name : {"", "two words", "a\"b", "a#b", "[1]", "a\nb"}) {
    const SampleCategoricalArgs args{std::vector<std::string>{"fits", name}, {1.0, 1.0}, "v"};
    EXPECT_ERROR(s.step(sample_categorical_def, args), E222) << name;
  }
}

TEST(SampleCategorical, E223ReplayedDecisionOutside) {
  auto s = schedule_from(kCopy);
  for (const char* decision : {"[2]", "[-1]", "[0, 1]", "3", "1x2"}) {
    auto trace = parse_trace(
        std::string("v0 = sample_categorical(candidates=[1, 2], probabilities=[0.5, 0.5], name=\"v\")  # v: ") +
        decision);
    ASSERT_OK(trace);
    EXPECT_ERROR(replay(s, *trace), E223) << decision;
  }
}

TEST(SampleCategorical, RememberedDecisionOutsideIsDrawnAnew) {
  const auto map = std::make_shared<DecisionMap>(DecisionMap{{"v", "7"}, {"w", "2"}});
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
