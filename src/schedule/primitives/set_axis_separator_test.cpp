#include "schedule/primitives/set_axis_separator.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::schedule_from;

TEST(SetAxisSeparator, NotesAllWhoTouchTheBuffer) {
  auto s = schedule_from(kTwo);
  ASSERT_OK(set_axis_separator(s, {s.block("T"), 0, "write", {1}}));
  EXPECT_TRUE(find_block(s.func()->body, "T")->annotations.find("axis_separator.T"));
  EXPECT_TRUE(find_block(s.func()->body, "C")->annotations.find("axis_separator.T"));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(set_axis_separator(s, {s.block("C"), 0, "read", {}}));
  EXPECT_TRUE(structural_equal(s.func(), s.original));
}

TEST(SetAxisSeparator, Errors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  EXPECT_ERROR(set_axis_separator(s, {t, 1, "write", {1}}), E220);
  EXPECT_ERROR(set_axis_separator(s, {t, 0, "both", {1}}), E241);
  EXPECT_ERROR(set_axis_separator(s, {t, 0, "write", {0}}), E241);
  EXPECT_ERROR(set_axis_separator(s, {t, 0, "write", {2}}), E241);
  EXPECT_ERROR(set_axis_separator(s, {t, 0, "write", {1, 1}}), E241);
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(set_axis_separator(s, {t, 0, "write", {1}}), E206);
}

}  // namespace
}  // namespace fettle
