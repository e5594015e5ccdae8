#include "tune/parts/tile_steps.h"

#include <gtest/gtest.h>

#include "schedule/primitives.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kProduct = R"(
for i in 10: for j in 40: for k in 8: C[i, j] += A[i, k] * B[k, j]
for i in 10: for j in 40: D[i, j] = max(C[i, j], 0)
)";

TEST(TileSteps, MakeATileByHand) {
  auto s = schedule_from(kProduct);
  const BlockRef block = s.block("C");
  const auto back = accumulate_in_registers(s, block);
  ASSERT_OK(back);
  const Loops loops = s.loops(block);
  const auto rows = cut_rows(s, loops[0], 4, Tail::kBalance), columns = cut_columns(s, loops[1], 2, 8, false);
  ASSERT_OK(rows);
  ASSERT_OK(columns);
  const Loops outer = TileLoops{.panels = {(*columns)[0]}, .rows = {(*rows)[0]}}.around();
  const Loops inner = {(*rows)[1], (*columns)[1], (*columns)[2]};
  ASSERT_OK(reorder(s, {.loops = concatenated({outer, {loops[2]}, inner})}));
  ASSERT_OK(unroll_tile(s, inner));
  ASSERT_OK(write_back(s, *back, outer.back(), outer.size(), 8));
  ASSERT_OK(begin_sums(s, block, loops[2]));
  PreferringDecider decider;
  ASSERT_OK(several_steps(s, decider, loops[2], {1, 4}, 1));
  ASSERT_OK(may_ask_for_next_panel(s, decider, outer.front(), true));
  EXPECT_NE(to_text(s.trace()).find("prefetch"), std::string::npos);
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
}

TEST(TileSteps, TheLoopOverPanelsIsOutsideOrInside) {
  auto s = schedule_from("for a in 2: for b in 3: for c in 4: for d in 5: B[a, b, c, d] = A[a, b, c, d]");
  const Loops l = s.loops(s.block("B"));
  TileLoops loops{.batch = {l[0]}, .panels = {l[1]}, .outside = {l[2]}, .rows = {l[3]}};
  EXPECT_EQ(loops.around(), (Loops{l[0], l[1], l[2], l[3]}));
  loops.rows_outside = true;
  EXPECT_EQ(loops.around(), (Loops{l[0], l[2], l[3], l[1]}));
}

TEST(PickTile, PrefersTheCheapestAndOffersNoMoreThanAreWorthIt) {
  auto s = schedule_from(kProduct);
  std::vector<Tile> tiles;
  for (int64_t rows = 1; rows <= 30; ++rows) tiles.push_back({.rows = rows, .vectors = 2, .cost = 10.0 + rows});
  PreferringDecider first, last({.ranks = {{"tile", 1000}}});
  const auto preferred = pick_tile(s, first, tiles, "C"), worst = pick_tile(s, last, tiles, "C");
  ASSERT_TRUE(preferred && worst);
  EXPECT_EQ(preferred->name(), tiles.front().name());
  EXPECT_EQ(s.decisions().at("tile"), "1x2");  // by its value, not its rank
  EXPECT_EQ(worst->rows, 24);
  EXPECT_ERROR(pick_tile(s, first, {}, "C"), E230);
}

TEST(PackPanels, RefusesWhatIsNotRead) {
  auto s = schedule_from(kProduct);
  const Buffer written = s.func()->params.back().buffer;
  EXPECT_ERROR(pack_panels(s, s.block("C"), written, {}), E220);
}

}  // namespace
}  // namespace fettle
