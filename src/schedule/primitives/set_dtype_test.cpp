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

// Bytes in 16 bits are the same bytes: their conversions to wider integers read them as they are.
TEST(SetDtype, WiderIntegersNeedNoConversionBack) {
  constexpr const char* kBytes = R"(
func bytes(A: u8[8], C: i32[8] output):
  alloc T: u8[8]
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi] + 1u8
  for i in 8:
    block C(vi: spatial[8] = i):
      reads T[vi]
      writes C[vi]
      C[vi] = i32(T[vi]) * 3i32
)";
  auto s = schedule_from(kBytes);
  ASSERT_OK(set_dtype(s, {s.block("T"), 0, "i16"}));
  EXPECT_NE(to_text(s.func()).find("= i32(T[vi]) * 3i32"), std::string::npos) << to_text(s.func());
  EXPECT_SAME_RESULT(s);
  auto narrow = schedule_from(kBytes);
  ASSERT_OK(set_dtype(narrow, {narrow.block("T"), 0, "i8"}));
  EXPECT_NE(to_text(narrow.func()).find("= i32(u8(T[vi])) * 3i32"), std::string::npos) << to_text(narrow.func());
  EXPECT_SAME_RESULT(narrow);
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
