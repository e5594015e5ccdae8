#include "schedule/primitives/annotate.h"

#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(Annotate, LoopsAndBlocksWithEveryKindOfValue) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  ASSERT_OK(annotate(s, {s.loop("i"), "factor", int64_t{4}}));
  ASSERT_OK(annotate(s, {s.loop("i"), "weight", 0.5}));
  ASSERT_OK(annotate(s, {s.block("B"), "role", std::string("say \"anchor\"\n")}));
  ASSERT_OK(annotate(s, {s.block("B"), "tiles", std::vector<int64_t>{4, 2}}));
  EXPECT_EQ(s.loop(s.loop("i"))->as<ForNode>()->annotations.get_int("factor", 0), 4);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Annotate, ReplacesANote) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  ASSERT_OK(annotate(s, {s.loop("i"), "factor", int64_t{4}}));
  ASSERT_OK(annotate(s, {s.loop("i"), "factor", int64_t{8}}));
  const Stmt loop = *s.loop(s.loop("i"));
  EXPECT_EQ(loop.as<ForNode>()->annotations.entries.size(), 1u);
  EXPECT_EQ(loop.as<ForNode>()->annotations.get_int("factor", 0), 8);
}

TEST(Annotate, E206ConsumedLoop) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 4}}));
  EXPECT_ERROR(annotate(s, {i, "factor", int64_t{4}}), E206);
}

TEST(Annotate, E225NeitherLoopNorBlock) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  auto v = sample_categorical(s, {{1}, {1.0}, "v"});
  ASSERT_OK(v);
  EXPECT_ERROR(annotate(s, {*v, "factor", int64_t{4}}), E225);
  EXPECT_ERROR(annotate(s, {StepRef{7, 0}, "factor", int64_t{4}}), E225);
}

}  // namespace
}  // namespace fettle
