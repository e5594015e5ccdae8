#include "schedule/primitives/sample_perfect_tile.h"

#include <map>

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 12: B[i] = A[i]";

TEST(SamplePerfectTile, EveryFactorisationIsEquallyLikely) {
  const Func func = schedule_from(kCopy).func();
  std::map<Decision, int> counts;
  constexpr int kDraws = 6000;
  for (uint64_t seed = 0; seed < kDraws; ++seed) {
    testing::TestSchedule s(func, seed);
    ASSERT_OK(sample_perfect_tile(s, {s.loop("i"), 3, 4, "i"}));
    ++counts[s.decisions().begin()->second];
  }
  // Innermost 1, 2, 3, 4 leave 12, 6, 4, 3 for two ordered factors: 6 + 4 + 3 + 2 ways.
  EXPECT_EQ(counts.size(), 15u);
  for (const auto& [chosen, count] : counts) {
    const Decision::List& decision = chosen.list();
    EXPECT_EQ(decision[0] * decision[1] * decision[2], 12);
    EXPECT_LE(decision[2], 4);
    EXPECT_NEAR(count, kDraws / 15, 100);
  }
}

TEST(SamplePerfectTile, FeedsSplit) {
  auto s = schedule_from("for i in 512: B[i] = A[i]", 5);
  auto v = sample_perfect_tile(s, {s.loop("i"), 4, 16, "i"});
  ASSERT_OK(v);
  ASSERT_EQ(v->size(), 4u);
  ASSERT_OK(split(s, {s.loop("i"), {(*v)[0], (*v)[1], (*v)[2], (*v)[3]}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(SamplePerfectTile, OneFactorIsTheExtent) {
  auto s = schedule_from(kCopy);
  auto v = sample_perfect_tile(s, {s.loop("i"), 1, 4, "i"});
  ASSERT_OK(v);
  EXPECT_EQ(*s.value(v->front()), 12);
}

TEST(SamplePerfectTile, E202BadCounts) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(sample_perfect_tile(s, {s.loop("i"), 0, 4, "i"}), E202);
  EXPECT_ERROR(sample_perfect_tile(s, {s.loop("i"), 17, 4, "i"}), E202);
  EXPECT_ERROR(sample_perfect_tile(s, {s.loop("i"), 2, -1, "i"}), E202);
}

TEST(SamplePerfectTile, E206ConsumedLoop) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {3, 4}}));
  EXPECT_ERROR(sample_perfect_tile(s, {i, 2, 0, "i"}), E206);
}

TEST(SamplePerfectTile, E221ExtentNotConstant) {
  auto s = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(sample_perfect_tile(s, {s.loop("i"), 2, 0, "i"}), E221);
}

TEST(SamplePerfectTile, E223ReplayedDecisionOutside) {
  for (const char* decision : {"[5, 2]", "[12]", "[2, 6]", "[-3, -4]"}) {
    auto s = schedule_from(kCopy);
    auto trace = parse_trace(std::string(R"(
      b0 = get_block(name="B")
      l1 = get_loops(block=b0)
      v2, v3 = sample_perfect_tile(loop=l1, n=2, max_innermost=4, name="i")  # i: )") +
                             decision);
    ASSERT_OK(trace);
    EXPECT_ERROR(replay(s, *trace), E223);
  }
}

TEST(SamplePerfectTile, RememberedDecisionOutsideIsDrawnAnew) {
  const auto map = std::make_shared<DecisionMap>(DecisionMap{{"i", {5, 2}}, {"j", {6, 2}}});
  Schedule s(schedule_from(kCopy).func(), 0, map);
  auto block = get_block(s, {"B"});
  auto loops = get_loops(s, {*block});
  auto i = sample_perfect_tile(s, {loops->front(), 2, 0, "i"});
  ASSERT_OK(i);
  EXPECT_EQ(*s.value(IntRef((*i)[0]) * (*i)[1]), 12);
  auto j = sample_perfect_tile(s, {loops->front(), 2, 0, "j"});
  ASSERT_OK(j);
  EXPECT_EQ(*s.value((*j)[0]), 6);
}

}  // namespace
}  // namespace fettle
