#include "schedule/primitives/sample_compute_location.h"

#include <set>

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::kTwo;
using testing::schedule_from;

TEST(SampleComputeLocation, DrawsEveryLegalPlace) {
  std::set<int64_t> seen;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    auto s = schedule_from(kTwo, seed);
    const BlockRef t = s.block("T");
    auto v = sample_compute_location(s, {t, "T"});
    ASSERT_OK(v);
    const int64_t place = s.value(*v).value();
    seen.insert(place);
    if (place == kInline) {
      ASSERT_OK(compute_inline(s, {t}));
    } else if (place != kStay) {
      ASSERT_OK(compute_at(s, {t, get_loops(s, {s.block("C")})->at(static_cast<size_t>(place))}));
    }
    EXPECT_REPLAYS(s);
    EXPECT_SAME_RESULT(s);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{kInline, kStay, 0, 1}));
}

TEST(SampleComputeLocation, AnOutputStays) {
  auto s = schedule_from(kTwo);
  auto v = sample_compute_location(s, {s.block("C"), "C"});
  ASSERT_OK(v);
  EXPECT_EQ(s.value(*v).value(), kStay);
  EXPECT_GOLDEN(s.trace());
}

TEST(SampleComputeLocation, Errors) {
  auto s = schedule_from(kTwo);
  const BlockRef t = s.block("T");
  ASSERT_OK(compute_inline(s, {t}));
  EXPECT_ERROR(sample_compute_location(s, {t, "T"}), E206);

  auto replayed = schedule_from(kTwo);
  auto trace = parse_trace(R"(
      b0 = get_block(name="T")
      v1 = sample_compute_location(block=b0, name="T")  # T: [7])");
  ASSERT_OK(trace);
  EXPECT_ERROR(replay(replayed, *trace), E223);
}

}  // namespace
}  // namespace fettle
