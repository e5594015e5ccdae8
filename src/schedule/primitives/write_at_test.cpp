#include "schedule/primitives/write_at.h"

#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRows = "for i in 32: for k in 6: C[i] += A[i, k]";

TEST(WriteAt, CopiesATileBack) {
  auto s = schedule_from(kRows);
  auto i = split(s, {s.loop("i"), {4, 8}});
  ASSERT_OK(i);
  auto copy = write_at(s, {(*i)[0], s.block("C"), 0, "register"});
  ASSERT_OK(copy);
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(WriteAt, Errors) {
  auto s = schedule_from(kRows);
  const BlockRef c = s.block("C");
  const LoopRef i = s.loop("i");
  EXPECT_ERROR(write_at(s, {i, c, 1, "global"}), E220);
  EXPECT_ERROR(write_at(s, {i, c, 0, "nowhere"}), E219);
  auto lanes = schedule_from(kRows);
  const LoopRef whole = lanes.loop("i");
  ASSERT_OK(vectorize(lanes, {whole}));
  EXPECT_ERROR(write_at(lanes, {whole, lanes.block("C"), 0, "global"}), E201);

  auto two = schedule_from("for i in 8: B[i] = A[i]\nfor j in 8: C[j] = B[j]");
  EXPECT_ERROR(write_at(two, {two.loop("j"), two.block("B"), 0, "global"}), E215);

  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(write_at(updating, {updating.loop("j"), updating.block("B"), 0, "global"}), E211);
  ASSERT_OK(split(s, {i, {4, 8}}));
  EXPECT_ERROR(write_at(s, {i, c, 0, "global"}), E206);
}

}  // namespace
}  // namespace fettle
