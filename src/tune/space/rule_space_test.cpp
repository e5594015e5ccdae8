#include <gtest/gtest.h>

#include "cost/predict/micro_kernel_table.h"
#include "ir/compare.h"
#include "schedule/testing.h"
#include "tune/space/space.h"
#include "tune/space/test_workloads.h"
#include "tune/space/testing.h"

namespace fettle {
namespace {

using testing::avx512;
using testing::choices;
using testing::decided;
using testing::expect_same;
using testing::NamedWorkload;
using testing::small_workloads;

TEST(DefaultSchedule, OfADepthwiseAndAPointwiseConvolution) {
  const Func workload = testing::strip_workload({.h = 56, .w = 56, .in = 96, .out = 24, .residual = true});
  const auto s = default_schedule(workload, avx512(), 2);
  ASSERT_OK(s);
  EXPECT_NE(choices(*s).find("strip_fusion/"), std::string::npos);
  EXPECT_GOLDEN(to_text(s->trace()) + "\n" + to_text(s->func()));
}

TEST(DefaultSchedule, AFewMoreWithTheMicroKernelTable) {
  const MicroKernelTable table(describe_costs(*avx512()), {}, "test");
  for (const NamedWorkload& workload : small_workloads()) {
    const auto s = default_schedule(workload.func, avx512(), 2, &table);
    ASSERT_OK(s);
    expect_same(workload.func, *s);
    if (HasFatalFailure()) return;
  }
}

// Decisions are edited one by one: what they lead to is a program of the same meaning, and most edits have an effect.
TEST(RuleSpace, DecisionsMayBeEdited) {
  const Func workload = testing::conv_workload({.h = 9, .w = 10, .ic = 4, .oc = 36, .epilogue = true});
  const auto first = default_schedule(workload, avx512(), 2);
  ASSERT_OK(first);
  int changed = 0;
  for (const auto& [address, decision] : first->decisions())
    for (const char* other : {"0", "1", "2", "4", "4x1", "8x2"}) {
      DecisionMap edited = first->decisions();
      edited[address] = other;
      const auto s = rule_space().generate(workload, avx512(), 2, 1, std::make_shared<const DecisionMap>(edited));
      ASSERT_OK(s);
      expect_same(workload, *s);
      if (HasFatalFailure()) return;
      changed += canonical_hash(s->func()) != canonical_hash(first->func());
    }
  EXPECT_GE(changed, 4);
}

class RuleSpaceOf : public ::testing::TestWithParam<NamedWorkload> {};

TEST_P(RuleSpaceOf, DefaultKeepsTheMeaning) {
  for (int threads : {1, 2}) {
    const auto schedule = default_schedule(GetParam().func, avx512(), threads);
    ASSERT_OK(schedule);
    expect_same(GetParam().func, *schedule);
  }
}

TEST_P(RuleSpaceOf, RandomPointsKeepTheMeaning) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto schedule =
        rule_space().generate(GetParam().func, avx512(), 1 + static_cast<int>(seed % 2), seed, nullptr);
    ASSERT_OK(schedule);
    expect_same(GetParam().func, *schedule);
    if (HasFatalFailure()) return;
  }
}

TEST_P(RuleSpaceOf, EqualSeedsAndDecisionsGiveEqualPrograms) {
  const auto first = rule_space().generate(GetParam().func, avx512(), 2, 7, nullptr);
  const auto again = rule_space().generate(GetParam().func, avx512(), 2, 7, nullptr);
  ASSERT_OK(first);
  ASSERT_OK(again);
  EXPECT_EQ(to_text(first->trace()), to_text(again->trace()));
  // With all decisions given, the seed does not matter.
  const auto decided =
      rule_space().generate(GetParam().func, avx512(), 2, 8, std::make_shared<const DecisionMap>(first->decisions()));
  ASSERT_OK(decided);
  EXPECT_TRUE(structural_equal(first->func(), decided->func()));
}

TEST_P(RuleSpaceOf, TracesReplay) {
  const auto schedule = default_schedule(GetParam().func, avx512(), 2);
  ASSERT_OK(schedule);
  const auto trace = parse_trace(to_text(schedule->trace()));
  ASSERT_OK(trace);
  Schedule again(GetParam().func, 99);
  again.set_target(avx512());
  ASSERT_OK(replay(again, *trace));
  EXPECT_TRUE(structural_equal(again.func(), schedule->func()));
}

INSTANTIATE_TEST_SUITE_P(Workloads, RuleSpaceOf, ::testing::ValuesIn(small_workloads()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace fettle
