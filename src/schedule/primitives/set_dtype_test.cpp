#include "schedule/primitives/set_dtype.h"

#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::schedule_from;

TEST(SetDtype, ConvertsAtEachAccess) {
  auto s = schedule_from(kTwo);
  ASSERT_OK(set_dtype(s, {s.block("T"), 0, "f64"}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(set_dtype(s, {s.block("T"), 0, "i8"}));  // the test's numbers fit
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(SetDtype, Errors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  EXPECT_ERROR(set_dtype(s, {t, 0, "float"}), E241);
  EXPECT_ERROR(set_dtype(s, {t, 0, "bool"}), E241);
  EXPECT_ERROR(set_dtype(s, {t, 0, "f32x4"}), E241);
  EXPECT_ERROR(set_dtype(s, {s.block("C"), 0, "f64"}), E218);
  EXPECT_ERROR(set_dtype(s, {t, 1, "f64"}), E220);
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(set_dtype(s, {t, 0, "f64"}), E206);
}

}  // namespace
}  // namespace fettle
