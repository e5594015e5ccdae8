#include "schedule/primitives/sample_split.h"

#include <set>

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::vector<Decision::List> choices(int64_t extent, SampleSplitArgs args) {
  auto s = schedule_from("for i in " + std::to_string(extent) + ": B[i] = A[i]");
  args.loop = s.loop("i");
  auto found = split_choices(s, args);
  FETTLE_CHECK_MSG(found.has_value(), found.error().to_string());
  return *found;
}

TEST(SampleSplit, Factors) {
  EXPECT_EQ(choices(12, {.n = 2}), (std::vector<Decision::List>{{12, 1}, {6, 2}, {4, 3}, {3, 4}, {2, 6}, {1, 12}}));
  EXPECT_EQ(choices(512, {.n = 2}).size(), 10u);
  EXPECT_EQ(choices(512, {.n = 4}).size(), 220u);  // C(9 + 3, 3)
  EXPECT_EQ(choices(12, {.n = 2, .max_factor = 4}), (std::vector<Decision::List>{{12, 1}, {6, 2}, {4, 3}, {3, 4}}));
  EXPECT_EQ(choices(12, {.n = 1}), (std::vector<Decision::List>{{12}}));
}

TEST(SampleSplit, PowersOfTwoMayLeaveTails) {
  EXPECT_EQ(choices(12, {.n = 2, .policy = "power2"}), (std::vector<Decision::List>{{12, 1}, {6, 2}, {3, 4}, {2, 8}}));
  EXPECT_EQ(choices(12, {.n = 2, .policy = "power2", .no_tail = true}),
            (std::vector<Decision::List>{{12, 1}, {6, 2}, {3, 4}}));
  EXPECT_EQ(choices(7, {.n = 2, .policy = "power2"}), (std::vector<Decision::List>{{7, 1}, {4, 2}, {2, 4}}));
}

TEST(SampleSplit, VerboseIsBoth) {
  EXPECT_EQ(choices(6, {.n = 2, .policy = "verbose"}),
            (std::vector<Decision::List>{{6, 1}, {3, 2}, {2, 3}, {2, 4}, {1, 6}}));
}

TEST(SampleSplit, GivenCandidates) {
  EXPECT_EQ(choices(100, {.n = 2, .policy = "candidates", .candidates = {{-1, 32}, {10, 10}, {-1, 25}}}),
            (std::vector<Decision::List>{{4, 32}, {10, 10}, {4, 25}}));
  EXPECT_EQ(choices(100, {.n = 2, .policy = "candidates", .no_tail = true, .candidates = {{-1, 32}, {10, 10}}}).size(),
            1u);
}

TEST(SampleSplit, FeedsSplit) {
  std::set<Decision> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto s = schedule_from("for i in 12: B[i] = A[i]", seed);
    const LoopRef i = s.loop("i");
    const auto sizes = sample_split(s, {.loop = i, .n = 2, .policy = "verbose", .name = "tile"});
    ASSERT_OK(sizes);
    ASSERT_OK(split(s, {i, {(*sizes)[0], (*sizes)[1]}, Tail::kGuard}));
    seen.insert(s.decisions().at("tile"));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
  EXPECT_EQ(seen.size(), 7u);  // 1 2 3 4 6 8 12
}

TEST(SampleSplit, CandidatesReplay) {
  auto s = schedule_from("for i in 100: B[i] = A[i]");
  ASSERT_OK(sample_split(
      s, {.loop = s.loop("i"), .n = 2, .policy = "candidates", .candidates = {{-1, 32}, {10, 10}}, .name = "tile"}));
  EXPECT_GOLDEN(s.trace());
  EXPECT_REPLAYS(s);
}

TEST(SampleSplit, Errors) {
  auto s = schedule_from("for i in 4096: B[i] = A[i]");
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(sample_split(s, {.loop = i, .n = 0}), E202);
  EXPECT_ERROR(sample_split(s, {.loop = i, .n = 9}), E202);
  EXPECT_ERROR(sample_split(s, {.loop = i, .max_factor = -1}), E202);
  EXPECT_ERROR(sample_split(s, {.loop = i, .policy = "primes"}), E241);
  EXPECT_ERROR(sample_split(s, {.loop = i, .policy = "candidates"}), E237);
  EXPECT_ERROR(sample_split(s, {.loop = i, .policy = "candidates", .candidates = {{2, 4}}}), E237);
  auto large = schedule_from("for i in 65536: B[i] = A[i]");
  EXPECT_ERROR(sample_split(large, {.loop = large.loop("i"), .n = 8}), E237);  // C(16 + 7, 7) = 245,157
  const LoopRef gone = i;
  ASSERT_OK(split(s, {i, {64, 64}}));
  EXPECT_ERROR(sample_split(s, {.loop = gone}), E206);
  auto t = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(sample_split(t, {.loop = t.loop("i")}), E221);
  auto u = schedule_from("for i in 12: B[i] = A[i]");
  const auto step = u.step_recorded(sample_split_def, std::make_shared<SampleSplitArgs>(SampleSplitArgs{u.loop("i")}),
                                    "tile", {5, 3});
  EXPECT_ERROR(step, E223);
}

}  // namespace
}  // namespace fettle
