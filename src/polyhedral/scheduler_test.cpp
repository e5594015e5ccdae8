#include "polyhedral/scheduler.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "polyhedral/unroll_and_jam.h"
#include "schedule/primitives.h"
#include "schedule/test_programs_affine.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// Two arrays that are made of each other in each step.
std::string jacobi(int steps, int n) {
  return fmt::format(R"(func jacobi(X: f32[{0}], A: f32[{0}] output):
  alloc B: f32[{0}]
  for a in {0}:
    block copy(va: spatial[{0}] = a):
      reads X[va]
      writes A[va]
      A[va] = X[va]
  for t in {1}:
    for i in {2}:
      block S0(vt: scan[{1}] = t, vi: scan[{2}] = i):
        reads A[vi +: 3]
        writes B[vi + 1]
        B[vi + 1] = max(A[vi], A[vi + 2]) - A[vi + 1]
    for j in {2}:
      block S1(vt: scan[{1}] = t, vi: scan[{2}] = j):
        reads B[vi + 1]
        writes A[vi + 1]
        A[vi + 1] = B[vi + 1]
)",
                     n, steps, n - 2);
}

const char* const kProducts =
    R"(func products(A: f32[6, 8], B: f32[8, 16], D: f32[16, 16], C: f32[6, 16] output, E: f32[6, 16] output):
  for i in 6:
    for j in 16:
      for k in 8:
        block C(vi: spatial[6] = i, vj: spatial[16] = j, vk: reduce[8] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
  for l in 6:
    for m in 16:
      for n in 16:
        block E(vi: spatial[6] = l, vj: spatial[16] = m, vk: reduce[16] = n):
          reads C[vi, vk], D[vk, vj]
          writes E[vi, vj]
          init:
            E[vi, vj] = 0.0
          E[vi, vj] = E[vi, vj] + C[vi, vk] * D[vk, vj]
)";

void expect_scheduled(const std::string& text, const PolyhedralOptions& options) {
  auto s = schedule_from(text);
  ASSERT_OK(reschedule_program(s, options));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  EXPECT_GOLDEN(s.func());
}

TEST(PolyhedralScheduler, TilesATriangle) {
  expect_scheduled(triangular(14), {.tiles = {4}, .lanes = 4, .parallel = true});
}

TEST(PolyhedralScheduler, SkewsTime) { expect_scheduled(jacobi(6, 20), {.tiles = {4}}); }

TEST(PolyhedralScheduler, LeavesRowsStraight) {
  const auto step = [](std::string_view block, std::string_view from, std::string_view to) {
    return fmt::format(R"(    for i in 10:
      for j in 14:
        block {0}(vt: scan[6] = t, vi: spatial[10] = i, vj: spatial[14] = j):
          reads {1}[vi +: 3, vj +: 3]
          writes {2}[vi + 1, vj + 1]
          {2}[vi + 1, vj + 1] = max({1}[vi, vj + 1], {1}[vi + 2, vj + 1]) - {1}[vi + 1, vj] + {1}[vi + 1, vj + 2]
)",
                       block, from, to);
  };
  const std::string text = "func jacobi(A: f32[12, 16] output, B: f32[12, 16] output):\n" +
                           std::string(R"(  for a in 12:
    for b in 16:
      block X(va: spatial[12] = a, vb: spatial[16] = b):
        writes A[va, vb]
        A[va, vb] = f32(va * 3 - vb)
  for a in 12:
    for b in 16:
      block Y(va: spatial[12] = a, vb: spatial[16] = b):
        writes B[va, vb]
        B[va, vb] = f32(vb - va)
  for t in 6:
)") + step("S0", "A", "B") +
                           step("S1", "B", "A");
  auto s = schedule_from(text);
  const auto found = make_found_orders();
  const PolyhedralOptions options = {.fusion = FusionStrategy::kMax,
                                     .tiles = {4, 4},
                                     .full_tiles = false,
                                     .straight_rows = true,
                                     .lanes = 4,
                                     .blocks = {"S0", "S1"},
                                     .found = found};
  ASSERT_OK(reschedule_program(s, options));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *parse_target("host")));
  for (const char* block : {"S0", "S1"}) {
    const auto loops = get_loops(s, {*get_block(s, {block})});
    ASSERT_OK(loops);
    EXPECT_EQ((*s.loop(loops->back())).as<ForNode>()->loop_kind, ForKind::kVectorized) << to_text(s.func());
    EXPECT_EQ(as_int((*s.loop((*loops)[loops->size() - 2])).as<ForNode>()->extent) != nullptr, true);
  }
  // What was found serves other options.
  auto again = schedule_from(text);
  ASSERT_OK(reschedule_program(again, options));
  EXPECT_EQ(to_text(again.func()), to_text(s.func()));
}

// A sum over a triangle, whose steps go along memory or not: whole tiles are written out, the others stay loops.
std::string triangle_of_products(const char* reads, const char* factor) {
  return fmt::format(R"(func syrk(X: f32[26, 26], A: f32[26, 150], B: f32[150, 26], C: f32[26, 26] output):
  for a in 26:
    for b in 26:
      block copy(va: spatial[26] = a, vb: spatial[26] = b):
        reads X[va, vb]
        writes C[va, vb]
        C[va, vb] = X[va, vb]
  for i in 26:
    for j in i + 1:
      for k in 150:
        block S(vi: spatial[26] = i, vj: spatial[26] = j, vk: reduce[150] = k):
          reads C[vi, vj], A[vi, vk], {0}
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + A[vi, vk] * {1}
)",
                     reads, factor);
}

TEST(PolyhedralScheduler, WritesTilesOfSumsOut) {
  const struct {
    const char *reads, *factor;
    bool in_lanes, is_packed;
  } kCases[] = {
      {"A[vj, vk]", "A[vj, vk]", true, true},
      {"B[vk, vj]", "B[vk, vj]", true, false},
      {"A[vj, vk], B[0, 0]", "(A[vj, vk] * B[0, 0])", false, false},
  };
  for (const auto& [reads, factor, in_lanes, is_packed] : kCases) {
    auto s = schedule_from(triangle_of_products(reads, factor));
    ASSERT_OK(
        reschedule_program(s, {.fusion = FusionStrategy::kMin, .register_tiles = true, .lanes = 4, .blocks = {"S"}}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    const auto loops = get_loops(s, {*get_block(s, {"S"})});
    ASSERT_OK(loops);
    std::vector<ForKind> kinds;
    for (const LoopRef& loop : *loops) kinds.push_back((*s.loop(loop)).as<ForNode>()->loop_kind);
    ASSERT_GE(kinds.size(), 3u);
    EXPECT_EQ(find_block(s.func()->body, "A_global") != nullptr, is_packed);
    EXPECT_EQ(kinds.back(), in_lanes ? ForKind::kVectorized : ForKind::kUnrolled) << to_text(s.func());
    EXPECT_EQ(kinds[kinds.size() - 2], ForKind::kUnrolled) << to_text(s.func());
  }
}

// Gauss and Seidel's sweeps, in which each element waits for the one before. Four does not divide the rows.
std::string sweeps(int rows, int columns) {
  return fmt::format(R"(func sweeps(X: f32[{0}, {1}], A: f32[{0}, {1}] output):
  for a in {0}:
    for b in {1}:
      block copy(va: spatial[{0}] = a, vb: spatial[{1}] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for t in 3:
    for i in {2}:
      for j in {3}:
        block S(vt: scan[3] = t, vi: scan[{2}] = i, vj: scan[{3}] = j):
          reads A[vi +: 3, vj +: 3]
          writes A[vi + 1, vj + 1]
          A[vi + 1, vj + 1] = max(A[vi, vj + 2], A[vi + 1, vj]) - A[vi + 2, vj + 1] + A[vi + 1, vj + 2]
)",
                     rows, columns, rows - 2, columns - 2);
}

TEST(PolyhedralScheduler, JamsRowsOfARecurrence) {
  for (const int rows : {16, 17}) {
    auto s = schedule_from(sweeps(rows, 30));
    ASSERT_OK(reschedule_program(s, {.fusion = FusionStrategy::kMin, .jammed_rows = 4, .blocks = {"S"}}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    const auto loops = get_loops(s, {*get_block(s, {"S"})});
    ASSERT_OK(loops);
    const auto rows_of_tile = *s.loop(loops->back());
    EXPECT_EQ(rows_of_tile.as<ForNode>()->loop_kind, ForKind::kUnrolled) << to_text(s.func());
    EXPECT_EQ(*as_int(rows_of_tile.as<ForNode>()->extent), 4);
  }
}

// What waits longer than four rows work has eight at once.
TEST(PolyhedralScheduler, JamsAsManyRowsAsHideALatency) {
  const auto rows = [](const std::string& value) {
    const auto s = schedule_from(
        "func f(A: f32[10, 30] output):\n"
        "  for i in 10:\n"
        "    for j in 28:\n"
        "      block S(vi: scan[10] = i, vj: scan[28] = j):\n"
        "        reads A[vi, vj +: 3]\n"
        "        writes A[vi, vj + 1]\n"
        "        A[vi, vj + 1] = " +
        value + "\n");
    return rows_to_jam(*find_block(s.func()->body, "S"), 4);
  };
  EXPECT_EQ(rows("(A[vi, vj] + A[vi, vj + 1] + A[vi, vj + 2]) / 3.0"), 8);
  // Most of this work waits for nothing.
  EXPECT_EQ(rows("A[vi, vj] + (f32(vi) * 2.0 + 3.0) * (f32(vj) * 4.0 - 1.0) * (f32(vi) * 2.0 - 5.0)"), 4);
}

// Rows that do not wait for each other are not skewed. The sums along each go along memory.
TEST(PolyhedralScheduler, JamsRowsOfTheirOwn) {
  auto s = schedule_from(R"(func filter(X: f32[10, 12], P: f32[10, 12] output):
  for a in 10:
    for b in 12:
      block copy(va: spatial[10] = a, vb: spatial[12] = b):
        reads X[va, vb]
        writes P[va, vb]
        P[va, vb] = X[va, vb]
  for j in 11:
    for i in 10:
      block S(vj: scan[11] = j, vi: scan[10] = i):
        reads P[vi, vj +: 2]
        writes P[vi, vj + 1]
        P[vi, vj + 1] = P[vi, vj + 1] - P[vi, vj]
)");
  ASSERT_OK(reschedule_program(s, {.fusion = FusionStrategy::kMin, .jammed_rows = 4, .blocks = {"S"}}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  const std::string trace = to_text(s.trace());
  EXPECT_NE(trace.find("(j, i) -> (i // 4, j, i)"), std::string::npos) << trace;
}

TEST(PolyhedralScheduler, JamsNothingElse) {
  for (const std::string& text : {jacobi(6, 20), triangle_of_products("A[vj, vk]", "A[vj, vk]")}) {
    auto s = schedule_from(text);
    EXPECT_ERROR(reschedule_program(s, {.jammed_rows = 4}), E211);
    EXPECT_EQ(s.trace().size(), 0u);
  }
}

TEST(PolyhedralScheduler, OrdersWithoutSumsAreAsWithoutTiles) {
  auto tiled = schedule_from(jacobi(6, 20)), plain = tiled;
  ASSERT_OK(reschedule_program(tiled, {.register_tiles = true}));
  ASSERT_OK(reschedule_program(plain, {}));
  EXPECT_EQ(to_text(tiled.func()), to_text(plain.func()));
}

TEST(PolyhedralScheduler, KeepsStrategiesApart) {
  for (const FusionStrategy fusion : {FusionStrategy::kMax, FusionStrategy::kPreserve3Coincident, FusionStrategy::kMin})
    expect_scheduled(kProducts, {.fusion = fusion, .tiles = {4, 8}, .lanes = 4});
}

TEST(PolyhedralScheduler, AddsNoLoopsWhereItMayNot) {
  for (const bool skews : {true, false}) {
    auto s = schedule_from(jacobi(6, 20));
    ASSERT_OK(reschedule_program(s, {.fusion = FusionStrategy::kMax, .allow_skewing = skews}));
    EXPECT_EQ(to_text(s.trace()).find("t * 2 + ") != std::string::npos, skews) << to_text(s.trace());
    EXPECT_SAME_RESULT(s);
  }
}

// Tiles of time, of which threads share those that are independent.
TEST(PolyhedralScheduler, ThreadsShareTilesOfAFront) {
  for (const TileOrder order : {TileOrder::kInTurn, TileOrder::kWavefronts, TileOrder::kDiamonds}) {
    auto s = schedule_from(jacobi(12, 24));
    ASSERT_OK(reschedule_program(
        s,
        {.fusion = FusionStrategy::kMax, .tiles = {4}, .tile_order = order, .parallel = true, .blocks = {"S0", "S1"}}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_OK(verify(s.func(), *parse_target("host")));
    const std::string text = to_text(s.func());
    EXPECT_EQ(text.find("parallel") != std::string::npos, order != TileOrder::kInTurn) << text;
    // Diamonds lean both ways: the second row of the map has time with another sign.
    EXPECT_EQ(to_text(s.trace()).find("t * 2 - i") != std::string::npos, order == TileOrder::kDiamonds)
        << to_text(s.trace());
  }
}

TEST(PolyhedralScheduler, UnrollsInnermostLoops) {
  for (const int64_t factor : {3, 16}) {
    auto s = schedule_from(kProducts);
    ASSERT_OK(reschedule_program(s, {.fusion = FusionStrategy::kMin, .unroll = factor}));
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
    EXPECT_NE(to_text(s.func()).find("unrolled"), std::string::npos) << to_text(s.func());
  }
}

// Rows backwards are one thing that isl may find; without it they are refused by name.
TEST(PolyhedralScheduler, HasNoLoopsBackwardsWhereNoneMayBe) {
  const char* const kBackwards = R"(func f(A: f32[12, 12], B: f32[12, 12] output, C: f32[12, 12] output):
  for i in 12:
    for j in 12:
      block B(vi: spatial[12] = i, vj: spatial[12] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj]
  for i in 12:
    for j in 12:
      block C(vi: spatial[12] = i, vj: spatial[12] = j):
        reads B[vi, 11 - vj]
        writes C[vi, vj]
        C[vi, vj] = B[vi, 11 - vj]
)";
  for (const bool positive : {false, true}) {
    auto s = schedule_from(kBackwards);
    const auto made = reschedule_program(s, {.fusion = FusionStrategy::kMax, .positive_orthant = positive});
    EXPECT_EQ(made.has_value(), !positive);
    EXPECT_SAME_RESULT(s);
    EXPECT_EQ(to_text(s.trace()).find("j * -1") != std::string::npos, !positive) << to_text(s.trace());
  }
}

TEST(PolyhedralScheduler, NamesWhatIsNotAffine) {
  auto s = schedule_from(R"(func f(A: f32[30], B: f32[30] output):
  for i in 5:
    for j in i * i + 1:
      block B(vi: scan[30] = i + j):
        reads A[vi]
        writes B[vi]
        B[vi] = A[vi]
)");
  const auto refused = reschedule_program(s, {});
  EXPECT_ERROR(refused, E209);
  EXPECT_EQ(s.trace().size(), 0u);
}

}  // namespace
}  // namespace fettle
