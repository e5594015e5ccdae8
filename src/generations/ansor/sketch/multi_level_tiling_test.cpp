#include "generations/ansor/sketch/multi_level_tiling.h"

#include "generations/ansor/sketch/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::TestSchedule;

std::string nest_of(const Func& func) {
  std::string names;
  walk(func->body, [&](const Stmt& s) {
    if (const auto* loop = s.as<ForNode>()) names += (names.empty() ? "" : " ") + loop->var->name;
    return true;
  });
  return names;
}

TEST(MultiLevelTiling, TenLoopsOfAMatmul) {
  TestSchedule s(testing::matmul(32, 24, 40), 3);
  s.set_address_prefix("tile");
  const auto levels = MultiLevelTiling("SSRSRS").apply(s, s.block("C"));
  ASSERT_OK(levels);
  EXPECT_EQ(nest_of(s.func()), "i_0 j_0 i_1 j_1 k_0 i_2 j_2 k_1 i_3 j_3");
  std::vector<size_t> sizes;
  for (const auto& level : *levels) sizes.push_back(level.size());
  EXPECT_EQ(sizes, (std::vector<size_t>{2, 2, 1, 2, 1, 2}));
  const DecisionMap decisions = s.decisions();
  ASSERT_EQ(decisions.size(), 3u);
  EXPECT_EQ(decisions.at("tile/i").list().size(), 4u);
  EXPECT_EQ(decisions.at("tile/k").list().size(), 2u);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(MultiLevelTiling, ALevelAloneNeedsNoDecision) {
  TestSchedule s(testing::matmul(8, 8, 8));
  ASSERT_OK(MultiLevelTiling("SRS").apply(s, s.block("C")));
  EXPECT_EQ(nest_of(s.func()), "i_0 j_0 k i_1 j_1");
  EXPECT_EQ(s.decisions().size(), 2u);
  EXPECT_SAME_RESULT(s);
}

TEST(MultiLevelTiling, TheInnermostFactorHasALimit) {
  MultiLevelTiling tiling("SRS");
  tiling.max_innermost = 4;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    TestSchedule s(testing::matmul(64, 64, 8), seed);
    ASSERT_OK(tiling.apply(s, s.block("C")));
    for (const auto& [address, sizes] : s.decisions()) EXPECT_LE(sizes.list().back(), 4) << address;
  }
}

TEST(MultiLevelTiling, ExtentsWithoutGoodDivisorsAreRoundedUp) {
  // In lanes of 16: what divisors up to 64 leave idle, against what rounding up does.
  const std::pair<int64_t, int64_t> lanes[] = {{768, 768}, {6625, 6720}, {77, 80}, {90, 96}, {100, 112},  {60, 64},
                                               {24, 24},   {120, 128},   {16, 16}, {7, 7},   {8192, 8192}};
  for (const auto& [extent, suitable] : lanes) EXPECT_EQ(suitable_extent(extent, 16), suitable) << extent;
  const std::pair<int64_t, int64_t> rows[] = {{197, 200}, {19, 20}, {29, 30}, {27, 27}, {56, 56}, {77, 77}, {5, 5}};
  for (const auto& [extent, suitable] : rows) EXPECT_EQ(suitable_extent(extent, 1), suitable) << extent;

  for (uint64_t seed = 0; seed < 10; ++seed) {
    TestSchedule s(testing::matmul(19, 77, 5), seed);
    s.set_address_prefix("tile");
    ASSERT_OK(MultiLevelTiling("SSRSRS").apply(s, s.block("C")));
    int64_t columns = 1;
    const DecisionMap decisions = s.decisions();
    for (const int64_t size : decisions.at("tile/j").list()) columns *= size;
    EXPECT_EQ(columns, 80);
    EXPECT_SAME_RESULT(s);
    EXPECT_REPLAYS(s);
  }
  MultiLevelTiling exact("SRS");
  exact.rounds_up = false;
  TestSchedule s(testing::matmul(19, 37, 11));
  ASSERT_OK(exact.apply(s, s.block("C")));
  EXPECT_EQ(nest_of(s.func()), "i_0 j_0 k i_1 j_1");
}

TEST(MultiLevelTiling, ThreadAxesTakeTheFirstLevels) {
  TestSchedule s(testing::matmul(16, 16, 8), 1);
  MultiLevelTiling tiling("SSSRRSRS");
  tiling.tile_binds = {"blockIdx.x", "vthread.x", "threadIdx.x"};
  const auto levels = tiling.apply(s, s.block("C"));
  ASSERT_OK(levels);
  for (size_t level = 0; level < 3; ++level) {
    ASSERT_EQ((*levels)[level].size(), 1u);
    EXPECT_EQ(s.loop((*levels)[level][0])->as<ForNode>()->thread_axis, tiling.tile_binds[level]);
  }
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(MultiLevelTiling, StructuresThatDoNotFit) {
  TestSchedule s(testing::matmul(16, 16, 8));
  const BlockRef block = s.block("C");
  EXPECT_ERROR(MultiLevelTiling("").apply(s, block), E235);
  EXPECT_ERROR(MultiLevelTiling("SXS").apply(s, block), E235);
  EXPECT_ERROR(MultiLevelTiling("SS").apply(s, block), E235);  // no level for k
  MultiLevelTiling bound("SRS");
  bound.tile_binds = {"blockIdx.x", "threadIdx.x"};  // the second would be the reduction
  EXPECT_ERROR(bound.apply(s, block), E235);
  EXPECT_EQ(s.trace().size(), 1u);  // get_block: nothing else happened
  EXPECT_EQ(s.func(), s.original);
}

}  // namespace
}  // namespace fettle
