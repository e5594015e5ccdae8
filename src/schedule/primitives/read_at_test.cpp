#include "schedule/primitives/read_at.h"

#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kStencil = "for i in 32: B[i] = A[i] + A[i + 2]";

TEST(ReadAt, CopiesWhatATileNeeds) {
  auto s = schedule_from(kStencil);
  auto i = split(s, {s.loop("i"), {4, 8}});
  ASSERT_OK(i);
  auto copy = read_at(s, {(*i)[0], s.block("B"), 0, "global"});
  ASSERT_OK(copy);
  const auto loops = get_loops(s, {*copy});
  EXPECT_TRUE(is_int(s.loop(loops->back())->as<ForNode>()->extent, 10));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(ReadAt, Errors) {
  auto s = schedule_from(kStencil);
  auto i = split(s, {s.loop("i"), {4, 8}});
  ASSERT_OK(i);
  const BlockRef b = s.block("B");
  EXPECT_ERROR(read_at(s, {(*i)[0], b, 1, "global"}), E220);
  EXPECT_ERROR(read_at(s, {(*i)[0], b, 0, "nowhere"}), E219);

  auto two = schedule_from("for i in 8: B[i] = A[i]\nfor j in 8: C[j] = B[j]");
  EXPECT_ERROR(read_at(two, {two.loop("i"), two.block("C"), 0, "global"}), E215);  // C reads outside of i

  auto lanes = schedule_from(kStencil);
  const LoopRef whole = lanes.loop("i");
  ASSERT_OK(vectorize(lanes, {whole}));
  EXPECT_ERROR(read_at(lanes, {whole, lanes.block("B"), 0, "global"}), E201);
  EXPECT_ERROR(read_at(s, {LoopRef(StepRef{0, 0}), b, 0, "global"}), E225);

  auto updating = schedule_from(testing::kUpdate);
  EXPECT_ERROR(read_at(updating, {updating.loop("j"), updating.block("B"), 1, "global"}), E211);

  auto gone = schedule_from(kStencil);
  const LoopRef old = gone.loop("i");
  ASSERT_OK(split(gone, {old, {4, 8}}));
  EXPECT_ERROR(read_at(gone, {old, gone.block("B"), 0, "global"}), E206);
}

}  // namespace
}  // namespace fettle
