#include "schedule/primitives/sample_tile.h"

#include "schedule/primitives/split.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

std::string loop_of(int extent) { return "for i in " + std::to_string(extent) + ": B[i] = A[i]"; }

TEST(TileCandidates, OfEachPosition) {
  using Sizes = std::vector<int64_t>;
  const auto of = [](int64_t extent, TilePosition p, const Target* t = nullptr, int bytes = 4) {
    return tile_candidates(extent, t, p, bytes);
  };
  EXPECT_EQ(of(6625, TilePosition::kLanes), (Sizes{16, 32, 48, 64, 96, 128}));
  EXPECT_EQ(of(33, TilePosition::kLanes), (Sizes{16, 32, 48}));
  EXPECT_EQ(of(7, TilePosition::kLanes), (Sizes{8}));
  EXPECT_EQ(of(1, TilePosition::kLanes), (Sizes{1}));
  EXPECT_EQ(of(64, TilePosition::kLanes, nullptr, 8), (Sizes{8, 16, 24, 32, 48, 64}));
  EXPECT_EQ(of(20, TilePosition::kRows), (Sizes{1, 2, 3, 4, 5, 7, 10, 20}));
  const Sizes rows = of(197, TilePosition::kRows);  // 14 gives 15 tiles, 29 gives 7; 30 gives 7 as well
  EXPECT_TRUE(std::ranges::binary_search(rows, 14));
  EXPECT_TRUE(std::ranges::binary_search(rows, 29));
  EXPECT_FALSE(std::ranges::binary_search(rows, 30));
  EXPECT_EQ(of(512, TilePosition::kDepth), (Sizes{64, 76, 88, 104, 128, 172, 256, 512}));
  EXPECT_EQ(of(20, TilePosition::kDepth), (Sizes{20}));
  EXPECT_EQ(of(10, TilePosition::kOuter), (Sizes{1, 2, 3, 4, 6, 8, 10}));

  Target avx2;
  avx2.vector_bits = 256;
  avx2.vector_registers = 16;
  avx2.caches = {{32 << 10}, {256 << 10}};
  EXPECT_EQ(of(100, TilePosition::kLanes, &avx2), (Sizes{8, 16, 24, 32, 48, 64}));
  EXPECT_LE(of(1000, TilePosition::kRows, &avx2).back(), 14);
  EXPECT_LE(of(100000, TilePosition::kDepth, &avx2).back(), 2048);
}

TEST(SampleTile, FeedsSplitWhateverTheExtent) {
  for (int extent : {1, 7, 77, 197, 6625}) {
    for (TilePosition position :
         {TilePosition::kLanes, TilePosition::kRows, TilePosition::kDepth, TilePosition::kOuter}) {
      auto s = schedule_from(loop_of(extent), static_cast<uint64_t>(extent));
      auto v = sample_tile(s, {s.loop("i"), 3, position, 4, "i"});
      ASSERT_OK(v);
      ASSERT_EQ(v->size(), 3u);
      ASSERT_OK(split(s, {s.loop("i"), {(*v)[0], (*v)[1], (*v)[2]}, Tail::kGuard}));
      EXPECT_REPLAYS(s);
      EXPECT_SAME_RESULT(s);
    }
  }
}

TEST(SampleTile, OneFactorIsTheExtent) {
  auto s = schedule_from(loop_of(197));
  auto v = sample_tile(s, {s.loop("i"), 1, TilePosition::kRows, 4, "i"});
  ASSERT_OK(v);
  EXPECT_EQ(*s.value(v->front()), 197);
}

TEST(SampleTile, E202BadCounts) {
  auto s = schedule_from(loop_of(197));
  EXPECT_ERROR(sample_tile(s, {s.loop("i"), 0, TilePosition::kRows, 4, "i"}), E202);
  EXPECT_ERROR(sample_tile(s, {s.loop("i"), 17, TilePosition::kRows, 4, "i"}), E202);
  EXPECT_ERROR(sample_tile(s, {s.loop("i"), 2, TilePosition::kRows, 0, "i"}), E202);
}

TEST(SampleTile, E206ConsumedLoop) {
  auto s = schedule_from(loop_of(12));
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {3, 4}}));
  EXPECT_ERROR(sample_tile(s, {i, 2, TilePosition::kRows, 4, "i"}), E206);
}

TEST(SampleTile, E221ExtentNotConstant) {
  auto s = schedule_from(testing::kSymbolicCopy);
  EXPECT_ERROR(sample_tile(s, {s.loop("i"), 2, TilePosition::kRows, 4, "i"}), E221);
}

TEST(SampleTile, E223ReplayedDecisionOutside) {
  for (const char* decision : {"[13, 16]", "[7, 30]", "[197]", "[8, 29]"}) {
    auto s = schedule_from(loop_of(197));
    auto trace = parse_trace(std::string(R"(
      b0 = get_block(name="B")
      l1 = get_loops(block=b0)
      v2, v3 = sample_tile(loop=l1, n=2, innermost="rows", element_bytes=4, name="i")  # i: )") +
                             decision);
    ASSERT_OK(trace);
    if (std::string(decision) == "[13, 16]")
      EXPECT_OK(replay(s, *trace));  // 13 tiles of 16: a choice
    else
      EXPECT_ERROR(replay(s, *trace), E223);
  }
}

TEST(SampleTile, RememberedDecisionOutsideIsDrawnAnew) {
  const auto map = std::make_shared<DecisionMap>(DecisionMap{{"i", {7, 30}}, {"j", {15, 14}}});
  Schedule s(schedule_from(loop_of(197)).func(), 0, map);
  auto block = get_block(s, {"B"});
  auto loops = get_loops(s, {*block});
  auto i = sample_tile(s, {loops->front(), 2, TilePosition::kRows, 4, "i"});
  ASSERT_OK(i);
  EXPECT_NE(*s.value((*i)[1]), 30);
  auto j = sample_tile(s, {loops->front(), 2, TilePosition::kRows, 4, "j"});
  ASSERT_OK(j);
  EXPECT_EQ(*s.value((*j)[1]), 14);
}

}  // namespace
}  // namespace fettle
