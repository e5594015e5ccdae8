#include "schedule/primitives/unannotate.h"

#include "schedule/primitives/annotate.h"
#include "schedule/primitives/sample_categorical.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(Unannotate, UndoesAnnotate) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  ASSERT_OK(annotate(s, {s.loop("i"), "factor", int64_t{4}}));
  ASSERT_OK(annotate(s, {s.block("B"), "role", std::string("anchor")}));
  ASSERT_OK(unannotate(s, {s.loop("i"), "factor"}));
  ASSERT_OK(unannotate(s, {s.block("B"), "role"}));
  EXPECT_TRUE(structural_equal(s.func(), s.original));
  EXPECT_REPLAYS(s);
}

TEST(Unannotate, E206ConsumedLoop) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {2, 4}}));
  EXPECT_ERROR(unannotate(s, {i, "factor"}), E206);
}

TEST(Unannotate, E225NeitherLoopNorBlock) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  auto v = sample_categorical(s, {{1}, {1.0}, "v"});
  ASSERT_OK(v);
  EXPECT_ERROR(unannotate(s, {*v, "factor"}), E225);
}

TEST(Unannotate, E232NoSuchNote) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  EXPECT_ERROR(unannotate(s, {s.loop("i"), "factor"}), E232);
}

}  // namespace
}  // namespace fettle
