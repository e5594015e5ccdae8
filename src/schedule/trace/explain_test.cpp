#include "schedule/trace/explain.h"

#include "analysis/verify.h"
#include "schedule/primitives/parallel.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/sample_perfect_tile.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kRowSums = R"(
func sums(A: f32[24, 16], B: f32[24] output):
  for i in 24:
    for k in 16:
      block B(vi: spatial[24] = i, vk: reduce[16] = k):
        reads A[vi, vk]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + A[vi, vk]
)";

TEST(Explain, TheProgramAfterEachStep) {
  const auto trace = parse_trace(R"(
    b0 = get_block(name="B")
    l1, l2 = get_loops(block=b0)
    v3, v4 = sample_perfect_tile(loop=l1, n=2, max_innermost=8, name="i")   # i: [6, 4]
    l5, l6 = split(loop=l1, factors=[v3, v4])
    parallel(loop=l5)
    vectorize(loop=l6)
)");
  ASSERT_OK(trace);
  const TraceExplanation explained = explain_trace(schedule_from(kRowSums), *trace);
  EXPECT_FALSE(explained.refused.has_value());
  ASSERT_EQ(explained.steps.size(), 6u);
  EXPECT_TRUE(explained.steps[2].program.empty());  // a decision changes nothing yet
  EXPECT_FALSE(explained.steps[3].program.empty());
  EXPECT_GOLDEN(to_text(explained));
}

TEST(Explain, ARefusedStepWithTheSmallestTraceThatShowsIt) {
  const auto trace = parse_trace(R"(
    b0 = get_block(name="B")
    l1, l2 = get_loops(block=b0)
    v3, v4 = sample_perfect_tile(loop=l1, n=2, max_innermost=8, name="i")   # i: [6, 4]
    l5, l6 = split(loop=l1, factors=[v3, v4])
    vectorize(loop=l6)
    parallel(loop=l5)
    l7, l8 = split(loop=l2, factors=[4, 4])
    vectorize(loop=l8)
    unroll(loop=l7)
)");
  ASSERT_OK(trace);
  const TraceExplanation explained = explain_trace(schedule_from(kRowSums), *trace);
  ASSERT_TRUE(explained.refused.has_value());
  EXPECT_EQ(explained.refused->code, ErrorCode::E210);
  EXPECT_EQ(explained.steps.size(), 7u);
  EXPECT_GOLDEN(to_text(explained));
  // Nothing of the other loop is left, and it is still refused so.
  const auto smallest = smallest_refused(schedule_from(kRowSums), *trace);
  std::string names;
  for (const ParsedStep& step : smallest.steps) names += std::string(step.def->name) + " ";
  EXPECT_EQ(names, "get_block get_loops split vectorize ");
  auto s = schedule_from(kRowSums);
  EXPECT_ERROR(replay(s, smallest), E210);
}

TEST(Explain, NothingIsRefused) {
  const auto trace = parse_trace("b0 = get_block(name=\"B\")");
  EXPECT_TRUE(smallest_refused(schedule_from(kRowSums), *trace).steps.empty());
}

// What every refusal shows: the code and the rule, the primitive, what would make it legal, the step, the place.
TEST(Explain, ErrorsShowTheProgramWithThePlaceMarked) {
  auto s = schedule_from(kRowSums);
  const LoopRef i = s.loop("i"), k = s.loop("k");
  EXPECT_GOLDEN(explain(split(s, {i, {5, 4}}).error()));
  EXPECT_GOLDEN(explain(parallel(s, {k}).error()));
  // An error that knows no place of its own marks what the step is about.
  EXPECT_GOLDEN(explain(sample_perfect_tile(s, {.loop = k, .n = 0}).error()));
}

TEST(Explain, AProgramThatBreaksARuleOfTheTarget) {
  auto s = schedule_from(R"(
func copy(A: f32[64], B: f32[64] output):
  alloc R: f32[64] @register
  for i in 64:
    block R(v: spatial[64] = i):
      reads A[v]
      writes R[v]
      R[v] = A[v]
  for i in 64:
    block B(v: spatial[64] = i):
      reads R[v]
      writes B[v]
      B[v] = R[v]
)");
  const auto verified = verify(s.func(), parse_target("x86-64-avx512").value());
  ASSERT_FALSE(verified.has_value());
  EXPECT_GOLDEN(explain(verified.error()));  // a register is no place for an index that runs
}

TEST(Explain, AReferenceToWhatIsGone) {
  auto s = schedule_from(kRowSums);
  const LoopRef i = s.loop("i");
  ASSERT_OK(split(s, {i, {6, 4}}));
  const std::string text = explain(unroll(s, {i}).error());
  EXPECT_NE(text.find("E206"), std::string::npos) << text;
  EXPECT_NE(text.find("refused: unroll(loop=l"), std::string::npos) << text;
  EXPECT_NE(text.find("for i_0 in 6"), std::string::npos) << text;
  EXPECT_EQ(text.find("^^^"), std::string::npos) << text;  // nothing to mark
}

}  // namespace
}  // namespace fettle
