#include "schedule/primitives/pragma.h"

#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kNest = "for i in 4: for j in 8: for k in 4: for l in 4: B[i, j, k, l] = A[i, j, k, l]";

TEST(Pragma, UnrollsWhatIsSmall) {
  auto s = schedule_from(kNest);
  ASSERT_OK(pragma(s, {s.loop("i"), "auto_unroll_max_step", 16}));
  EXPECT_EQ(s.loop(s.loop("j"))->as<ForNode>()->loop_kind, ForKind::kSerial);
  EXPECT_EQ(s.loop(s.loop("k"))->as<ForNode>()->loop_kind, ForKind::kUnrolled);
  EXPECT_EQ(s.loop(s.loop("l"))->as<ForNode>()->loop_kind, ForKind::kUnrolled);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Pragma, LanesCountAsOne) {
  auto s = schedule_from(kNest);
  ASSERT_OK(vectorize(s, {s.loop("l")}));
  ASSERT_OK(pragma(s, {s.loop("i"), "auto_unroll_max_step", 32}));
  EXPECT_EQ(s.loop(s.loop("j"))->as<ForNode>()->loop_kind, ForKind::kUnrolled);
  EXPECT_EQ(s.loop(s.loop("i"))->as<ForNode>()->loop_kind, ForKind::kSerial);
  EXPECT_SAME_RESULT(s);
}

TEST(Pragma, NothingIsSmallEnough) {
  auto s = schedule_from(kNest);
  const Func before = s.func();
  ASSERT_OK(pragma(s, {s.loop("i"), "auto_unroll_max_step", 0}));
  EXPECT_EQ(s.func(), before);
}

TEST(Pragma, Errors) {
  auto s = schedule_from(kNest);
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(pragma(s, {i, "no_such", 1}), E241);
  EXPECT_ERROR(pragma(s, {i, "auto_unroll_max_step", -1}), E202);
  ASSERT_OK(split(s, {i, {2, 2}}));
  EXPECT_ERROR(pragma(s, {i, "auto_unroll_max_step", 1}), E206);
}

}  // namespace
}  // namespace fettle
