#include "schedule/primitives/tensorize.h"

#include "schedule/primitives/blockize.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tile.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

constexpr const char* kMatmul = "for i in 8: for j in 12: for k in 8: C[i, j] += A[i, k] * B[k, j]";

// A matmul in tiles with its init apart; `within` gets the outermost loop of a tile.
TestSchedule tiled(const char* program, std::vector<IntRef> sizes, LoopRef* within, Tail tail = Tail::kExact) {
  TestSchedule s = schedule_from(program);
  const auto loops = tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, std::move(sizes), tail});
  FETTLE_CHECK(loops.has_value());
  FETTLE_CHECK(decompose_reduction(s, {s.block("C"), (*loops)[2]}).has_value());
  *within = (*loops)[3];
  return s;
}

TEST(Tensorize, TileOfAMatmul) {
  LoopRef within;
  TestSchedule s = tiled(kMatmul, {2, 4, 4}, &within);
  auto unit = tensorize(s, {within, "scalar_matmul_f32"});
  ASSERT_OK(unit);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Tensorize, BatchedAndWithFactorsSwapped) {
  auto s = schedule_from("for b in 3: for i in 4: for j in 8: for k in 8: C[b, i, j] += B[b, k, j] * A[i, k]");
  auto loops = tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, {2, 4, 4}});
  ASSERT_OK(loops);
  ASSERT_OK(decompose_reduction(s, {s.block("C"), (*loops)[2]}));
  auto unit = blockize(s, {(*loops)[3]});
  ASSERT_OK(unit);
  ASSERT_OK(tensorize(s, {*unit, "scalar_matmul_f32"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

// Heads between rows and columns of a tile, as attention's operands have them.
TEST(Tensorize, DimensionsOfATileMayLieApart) {
  auto s = schedule_from("for b in 3: for i in 4: for j in 8: for k in 8: C[i, b, j] += A[i, b, k] * B[k, b, j]");
  auto loops = tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, {2, 4, 4}});
  ASSERT_OK(loops);
  ASSERT_OK(decompose_reduction(s, {s.block("C"), (*loops)[2]}));
  ASSERT_OK(tensorize(s, {(*loops)[3], "scalar_matmul_f32"}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Tensorize, E230SomethingElse) {
  LoopRef within;
  TestSchedule other_size = tiled(kMatmul, {2, 4, 2}, &within);
  EXPECT_ERROR(tensorize(other_size, {within, "scalar_matmul_f32"}), E230);
  TestSchedule guarded = tiled(kMatmul, {2, 4, 3}, &within, Tail::kGuard);
  EXPECT_ERROR(tensorize(guarded, {within, "scalar_matmul_f32"}), E230);
  TestSchedule transposed =
      tiled("for i in 8: for j in 12: for k in 8: C[i, j] += A[i, k] * B[j, k]", {2, 4, 4}, &within);
  EXPECT_ERROR(tensorize(transposed, {within, "scalar_matmul_f32"}), E230);
  TestSchedule maximum =
      tiled("for i in 8: for j in 12: for k in 8: C[i, j] max= A[i, k] * B[k, j]", {2, 4, 4}, &within);
  EXPECT_ERROR(tensorize(maximum, {within, "scalar_matmul_f32"}), E230);
  // The same buffer twice is not two buffers.
  TestSchedule square = tiled("for i in 8: for j in 8: for k in 8: C[i, j] += A[i, k] * A[k, j]", {2, 4, 4}, &within);
  EXPECT_ERROR(tensorize(square, {within, "scalar_matmul_f32"}), E230);

  auto with_init = schedule_from("for i in 2: for j in 4: for k in 4: C[i, j] += A[i, k] * B[k, j]");
  EXPECT_ERROR(tensorize(with_init, {with_init.loop("i"), "scalar_matmul_f32"}), E230);
  EXPECT_ERROR(tensorize(with_init, {with_init.block("C"), "scalar_matmul_f32"}), E230);
}

TEST(Tensorize, Errors) {
  auto s = schedule_from(kMatmul);
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(tensorize(s, {i, "no_such"}), E241);
  EXPECT_ERROR(tensorize(s, {StepRef{99, 0}, "scalar_matmul_f32"}), E225);
  ASSERT_OK(split(s, {i, {4, 2}}));
  EXPECT_ERROR(tensorize(s, {i, "scalar_matmul_f32"}), E206);

  auto two = schedule_from(testing::kTwoInOneLoop);
  EXPECT_ERROR(tensorize(two, {two.loop("i"), "scalar_matmul_f32"}), E207);

  auto window = schedule_from(testing::kWindow);
  EXPECT_ERROR(tensorize(window, {window.loop("r"), "scalar_matmul_f32"}), E209);
}

}  // namespace
}  // namespace fettle
