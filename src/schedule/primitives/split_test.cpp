#include "schedule/primitives/split.h"

#include "schedule/primitives/annotate.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kCopy = "for i in 100: B[i] = A[i]";
const std::string kMatmul = testing::matmul_program(13, 9, 7);

TEST(Split, Exact) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {kInfer, 5, 4}});
  ASSERT_OK(loops);
  ASSERT_EQ(loops->size(), 3u);
  EXPECT_EQ(*as_int(s.loop((*loops)[0])->as<ForNode>()->extent), 5);
  EXPECT_EQ(s.loop((*loops)[0])->as<ForNode>()->tail, Tail::kExact);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, InfersAndGuards) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {kInfer, 32}, Tail::kGuard});
  ASSERT_OK(loops);
  EXPECT_EQ(*as_int(s.loop((*loops)[0])->as<ForNode>()->extent), 4);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, EveryTailKeepsTheResult) {
  for (Tail tail : {Tail::kGuard, Tail::kPartition, Tail::kBalance, Tail::kMask, Tail::kPad}) {
    for (const char* loop : {"i", "j", "k"}) {
      auto s = schedule_from(kMatmul);
      auto loops = split(s, {s.loop(loop), {kInfer, 5}, tail});
      ASSERT_OK(loops);
      const auto* outer = s.loop((*loops)[0])->as<ForNode>();
      const auto* inner = s.loop((*loops)[1])->as<ForNode>();
      EXPECT_EQ(outer->tail, tail);
      EXPECT_EQ(inner->tail, Tail::kExact);
      EXPECT_REPLAYS(s);
      EXPECT_SAME_RESULT(s);
    }
  }
}

TEST(Split, TailThatIsNotNeededIsExact) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {kInfer, 25}, Tail::kPartition});
  ASSERT_OK(loops);
  EXPECT_EQ(s.loop((*loops)[0])->as<ForNode>()->tail, Tail::kExact);
  EXPECT_FALSE(find_block(s.func()->body, "B")->predicate);
}

TEST(Split, OutermostIsTrimmed) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {9, 32}, Tail::kGuard});
  ASSERT_OK(loops);
  EXPECT_EQ(*as_int(s.loop((*loops)[0])->as<ForNode>()->extent), 4);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, Balance) {
  auto s = schedule_from("for i in 197: B[i] = A[i]");
  auto loops = split(s, {s.loop("i"), {kInfer, 14}, Tail::kBalance});  // 197 = 2*14 + 13*13
  ASSERT_OK(loops);
  EXPECT_EQ(*as_int(s.loop((*loops)[0])->as<ForNode>()->extent), 15);
  EXPECT_EQ(*as_int(s.loop((*loops)[1])->as<ForNode>()->extent), 14);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, BalanceIntoTilesOfOneSize) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {10, 11}, Tail::kBalance});
  ASSERT_OK(loops);
  EXPECT_EQ(*as_int(s.loop((*loops)[1])->as<ForNode>()->extent), 10);
  EXPECT_FALSE(find_block(s.func()->body, "B")->predicate);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, Shift) {
  auto s = schedule_from(kCopy);
  auto loops = split(s, {s.loop("i"), {kInfer, 2, 16}, Tail::kShift});
  ASSERT_OK(loops);
  EXPECT_FALSE(find_block(s.func()->body, "B")->predicate);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, SplitsAPartOfASplit) {
  auto s = schedule_from(kCopy);
  auto outer = split(s, {s.loop("i"), {kInfer, 32}, Tail::kPartition});
  ASSERT_OK(outer);
  ASSERT_OK(split(s, {(*outer)[1], {kInfer, 5}, Tail::kGuard}));
  ASSERT_OK(split(s, {(*outer)[0], {2, 2}}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Split, SymbolicExtent) {
  auto s = schedule_from(testing::kSymbolicCopy);
  auto loops = split(s, {s.loop("i"), {kInfer, 8}, Tail::kGuard});
  ASSERT_OK(loops);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_TRUE(testing::same_result(s.original, s.func(), {1}));
  EXPECT_TRUE(testing::same_result(s.original, s.func(), {8}));
  EXPECT_TRUE(testing::same_result(s.original, s.func(), {29}));
}

TEST(Split, FactorsMayBeSampledAndMultiplied) {
  auto s = schedule_from(kCopy);
  auto v = sample_categorical(s, {{5}, {1.0}, "f"});
  ASSERT_OK(v);
  auto loops = split(s, {s.loop("i"), {kInfer, 2 * IntRef(*v)}});
  ASSERT_OK(loops);
  EXPECT_EQ(*as_int(s.loop((*loops)[0])->as<ForNode>()->extent), 10);
  EXPECT_REPLAYS(s);
}

TEST(Split, E201NotSerialOrAnnotated) {
  auto s = schedule_from(kCopy);
  ASSERT_OK(parallel(s, {s.loop("i")}));
  EXPECT_ERROR(split(s, {s.loop("i"), {kInfer, 4}}), E201);
  auto t = schedule_from(kCopy);
  ASSERT_OK(annotate(t, {t.loop("i"), "note"}));
  EXPECT_ERROR(split(t, {t.loop("i"), {kInfer, 4}}), E201);
}

TEST(Split, E202FactorLessThanOne) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(split(s, {s.loop("i"), {0, 100}}), E202);
  EXPECT_ERROR(split(s, {s.loop("i"), {100, -2}}), E202);
  EXPECT_ERROR(split(s, {s.loop("i"), {}}), E202);
  EXPECT_ERROR(split(s, {s.loop("i"), {int64_t{1} << 40, int64_t{1} << 40}}), E202);
}

TEST(Split, E203TwoToInfer) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(split(s, {s.loop("i"), {kInfer, 2, kInfer}}), E203);
}

TEST(Split, E204ProductTooSmall) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(split(s, {s.loop("i"), {4, 24}, Tail::kGuard}), E204);
}

TEST(Split, E205ExactUnproven) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(split(s, {s.loop("i"), {kInfer, 32}}), E205);
  EXPECT_ERROR(split(s, {s.loop("i"), {8, 25}}), E205);
}

TEST(Split, E206ConsumedLoop) {
  auto s = schedule_from(kCopy);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {kInfer, 4}}));
  const Func before = s.func();
  const size_t steps = s.trace().size();
  EXPECT_ERROR(split(s, {i, {kInfer, 4}}), E206);
  EXPECT_EQ(s.func(), before);  // a refused step leaves nothing behind
  EXPECT_EQ(s.trace().size(), steps);
}

TEST(Split, E231TailNotPossible) {
  auto s = schedule_from(kCopy);
  EXPECT_ERROR(split(s, {s.loop("i"), {kInfer, 4, 8}, Tail::kBalance}), E231);
  EXPECT_ERROR(split(s, {s.loop("i"), {kInfer, 128}, Tail::kShift}), E231);
  auto t = schedule_from(kMatmul);  // whatever the loop: run twice, it would add twice
  EXPECT_ERROR(split(t, {t.loop("i"), {kInfer, 4}, Tail::kShift}), E231);
  EXPECT_ERROR(split(t, {t.loop("k"), {kInfer, 4}, Tail::kShift}), E231);
}

}  // namespace
}  // namespace fettle
