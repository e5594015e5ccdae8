// Matrix products tiled by hand and by rule, as courses on tensor compilers show them. Programs of the printed size are
// compared with goldens; the same steps on a small size are run.

#include "generations/ansor/sketch/multi_level_tiling.h"
#include "generations/ansor/sketch/sketch.h"
#include "generations/ansor/sketch/test_programs.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tile.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::TestSchedule;

// C[y, x] = sum_k A[k, y] * B[k, x] (Chen et al.: TVM, OSDI 2018, section 4.1)
Func transposed_matmul(int64_t n) {
  const te::Tensor a = te::placeholder({n, n}, kF32, "A"), b = te::placeholder({n, n}, kF32, "B");
  const te::ReduceAxis k = te::reduce_axis(n, "k");
  const te::Tensor c =
      te::compute({n, n}, [&](const auto& v) { return te::sum(a(k, v[0]) * b(k, v[1]), {k}); }, "C", {"y", "x"});
  return te::create_func("matmul", {a, b}, {c});
}

// yo, xo, k, yi, xi, each tile cleared before its sum.
void block_8x8(TestSchedule& s) {
  const BlockRef c = s.block("C");
  const auto loops = *get_loops(s, {c});
  const auto y = split(s, {loops[0], {kInfer, 8}}), x = split(s, {loops[1], {kInfer, 8}});
  ASSERT_OK(y);
  ASSERT_OK(x);
  ASSERT_OK(reorder(s, {{(*y)[0], (*x)[0], loops[2], (*y)[1], (*x)[1]}}));
  ASSERT_OK(decompose_reduction(s, {c, loops[2]}));
}

TEST(WorkedMatmul, BlockedByEight) {
  TestSchedule s(transposed_matmul(1024));
  block_8x8(s);
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  TestSchedule small(transposed_matmul(24));
  block_8x8(small);
  EXPECT_SAME_RESULT(small);
}

// The same with one primitive fewer: tile is two splits and a reorder.
TEST(WorkedMatmul, BlockedByEightWithTile) {
  TestSchedule s(transposed_matmul(1024)), t(transposed_matmul(1024));
  block_8x8(s);
  const BlockRef c = t.block("C");
  const auto loops = *get_loops(t, {c});
  const auto tiles = tile(t, {{loops[0], loops[1]}, {8, 8}});
  ASSERT_OK(tiles);
  ASSERT_OK(reorder(t, {{loops[2], (*tiles)[2], (*tiles)[3]}}));
  ASSERT_OK(decompose_reduction(t, {c, loops[2]}));
  EXPECT_EQ(canonical_hash(t.func()), canonical_hash(s.func()));
}

using Sizes = std::vector<int64_t>;

// SSRSRS by hand: three splits and a reorder.
template <class Factors>
void ten_loops(TestSchedule& s, const Factors& factors) {
  const auto loops = *get_loops(s, {s.block("C")});
  const auto i = split(s, {loops[0], factors(loops[0], "i")}), j = split(s, {loops[1], factors(loops[1], "j")}),
             k = split(s, {loops[2], factors(loops[2], "k")});
  ASSERT_OK(i);
  ASSERT_OK(j);
  ASSERT_OK(k);
  ASSERT_OK(reorder(s, {{(*i)[0], (*j)[0], (*i)[1], (*j)[1], (*k)[0], (*i)[2], (*j)[2], (*k)[1], (*i)[3], (*j)[3]}}));
}

const DecisionMap kSizes = {{"i", {16, 8, 8, 8}}, {"j", {16, 8, 8, 8}}, {"k", {256, 8}}};

TEST(WorkedMatmul, TenLoopsByHand) {
  TestSchedule s(testing::matmul(8192, 8192, 2048));
  ten_loops(s, [](LoopRef, const char* name) -> std::vector<IntRef> {
    const Decision::List& sizes = kSizes.at(name).list();
    return {sizes.begin(), sizes.end()};
  });
  EXPECT_GOLDEN(loops_text(s.func()));
  EXPECT_GOLDEN(s.trace());
  EXPECT_REPLAYS(s);

  TestSchedule small(testing::matmul(16, 24, 12));
  ten_loops(small, [](LoopRef, const char* name) -> std::vector<IntRef> {
    const std::string axis = name;
    if (axis == "k") return {3, 4};
    return axis == "i" ? std::vector<IntRef>{2, 2, 2, 2} : std::vector<IntRef>{3, 2, 1, 4};
  });
  EXPECT_SAME_RESULT(small);
}

// The sizes are decisions now; the trace says where they came from.
TEST(WorkedMatmul, TenLoopsSampled) {
  const auto sampled = [](TestSchedule& s) {
    ten_loops(s, [&](LoopRef loop, const char* name) -> std::vector<IntRef> {
      const auto sizes = sample_perfect_tile(s, {loop, name[0] == 'k' ? 2 : 4, 64, name});
      FETTLE_CHECK(sizes.has_value());
      return {sizes->begin(), sizes->end()};
    });
  };
  const Func func = testing::matmul(8192, 8192, 2048);
  struct Remembering : TestSchedule {
    Remembering(const Func& f, const DecisionMap& decisions) : TestSchedule(f) {
      static_cast<Schedule&>(*this) = Schedule(f, 0, std::make_shared<DecisionMap>(decisions));
    }
  };
  Remembering s(func, kSizes);
  sampled(s);
  EXPECT_EQ(s.decisions(), kSizes);
  EXPECT_GOLDEN(s.trace());
  EXPECT_REPLAYS(s);

  TestSchedule by_hand(func);
  ten_loops(by_hand, [](LoopRef, const char* name) -> std::vector<IntRef> {
    const Decision::List& sizes = kSizes.at(name).list();
    return {sizes.begin(), sizes.end()};
  });
  EXPECT_EQ(canonical_hash(s.func()), canonical_hash(by_hand.func()));

  TestSchedule small(testing::matmul(16, 24, 12), 4);
  sampled(small);
  EXPECT_SAME_RESULT(small);
}

// The rule takes the same steps.
TEST(WorkedMatmul, TenLoopsByRule) {
  const Func func = testing::matmul(8192, 8192, 2048);
  Schedule s(func, 0, std::make_shared<DecisionMap>(kSizes));
  ASSERT_OK(MultiLevelTiling("SSRSRS").apply(s, *get_block(s, {"C"})));
  EXPECT_EQ(s.decisions(), kSizes);
  EXPECT_GOLDEN(s.trace());
  TestSchedule by_hand(func);
  ten_loops(by_hand, [](LoopRef, const char* name) -> std::vector<IntRef> {
    const Decision::List& sizes = kSizes.at(name).list();
    return {sizes.begin(), sizes.end()};
  });
  EXPECT_EQ(canonical_hash(s.func()), canonical_hash(by_hand.func()));
}

// A trace is not bound to the shape that it was made for: replayed without its decisions, or with those that fit.
TEST(WorkedMatmul, TenLoopsOnAnotherShape) {
  Schedule s(testing::matmul(8192, 8192, 2048), 7);
  ASSERT_OK(MultiLevelTiling("SSRSRS").apply(s, *get_block(s, {"C"})));
  ParsedTrace steps = as_parsed(s.trace());
  for (ParsedStep& step : steps.steps) step.decision = {};
  TestSchedule other(testing::matmul(48, 20, 36), 1);
  ASSERT_OK(replay(other, steps));
  EXPECT_SAME_RESULT(other);
  EXPECT_REPLAYS(other);
}

}  // namespace
}  // namespace fettle
