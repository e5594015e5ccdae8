#include "tune/parts/nest.h"

#include <gtest/gtest.h>

#include "schedule/test_programs.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

const Target& avx512() {
  static const Target target = parse_target("x86-64-avx512").value();
  return target;
}

TEST(Nest, IsInLanesAndInParallel) {
  auto s = schedule_from("for i in 100: for j in 300: B[i, j] = A[i, j] + 1");
  PreferringDecider decider;
  const auto made = loop_nest(s, avx512(), decider, s.block("B"), {.threads = 2});
  ASSERT_OK(made);
  EXPECT_EQ(*made, Finished{"B"});
  const std::string text = to_text(s.trace());
  EXPECT_NE(text.find("vectorize("), std::string::npos);
  EXPECT_NE(text.find("parallel("), std::string::npos);
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
}

TEST(OpenExtents, Nest) {
  for (const char* shape : {"n, 24", "24, n"}) {
    const std::string text = testing::replaced(testing::replaced(R"(
func nest(A: f32[SHAPE], C: f32[SHAPE] output, n: i64 in 1..1000000 typically 100000):
  for i in FIRST:
    for j in SECOND:
      block C(vi: spatial[FIRST] = i, vj: spatial[SECOND] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj] + 1.0
)",
                                                                 "SHAPE", shape),
                                               "FIRST", shape[0] == 'n' ? "n" : "24");
    TestSchedule s = schedule_from(testing::replaced(text, "SECOND", shape[0] == 'n' ? "24" : "n"));
    PreferringDecider decider;
    ASSERT_OK(loop_nest(s, avx512(), decider, s.block("C"), {.threads = 2}));
    EXPECT_NE(to_text(s.trace()).find("parallel("), std::string::npos);
    EXPECT_SAME_RESULT(s);
  }
}

}  // namespace
}  // namespace fettle
