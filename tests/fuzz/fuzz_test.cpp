#include "tests/fuzz/fuzz.h"

#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "base/checks.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "ir/compare.h"
#include "ir/text.h"
#include "schedule/primitive.h"
#include "tests/fuzz/program.h"
#include "tests/fuzz/steps.h"

namespace fettle::fuzz {
namespace {

TEST(Fuzz, TwoThousandSchedulesCompiledByLlvmComputeWhatIsInterpreted) {
  FuzzOptions options;
  options.seed = 1;
  options.traces = 2000;
  options.backend = find_backend("llvm");
  const FuzzReport report = fuzz(options);
  EXPECT_EQ(report.traces, 2000);
  EXPECT_TRUE(report.findings.empty()) << report.to_text();
  // Each primitive was part of some of these.
  for (const PrimitiveDef* def : primitive_defs()) {
    if (def->name == "skip_hidden") continue;  // its loops come from an approximate reformulation: none is tried
    const auto found = report.primitives.find(std::string(def->name));
    ASSERT_NE(found, report.primitives.end());
    EXPECT_GT(found->second.applied, 0) << def->name << '\n' << report.to_text();
  }
}

TEST(Fuzz, SchedulesPrintedAsCComputeWhatIsInterpreted) {
  FuzzOptions options;
  options.seed = 1;
  options.traces = 150;
  options.backend = find_backend("c");
  const FuzzReport report = fuzz(options);
  EXPECT_EQ(report.traces, 150);
  EXPECT_TRUE(report.findings.empty()) << report.to_text();
}

// Three hundred, in two parts that run side by side.
class FuzzAffine : public ::testing::TestWithParam<int64_t> {};

TEST_P(FuzzAffine, ProgramsInOtherOrdersComputeWhatIsInterpreted) {
  FuzzOptions options;
  options.seed = 1;
  options.first_case = GetParam();
  options.traces = options.first_case == 0 ? 160 : 140;
  options.backend = find_backend("llvm");
  options.affine = true;
  const FuzzReport report = fuzz(options);
  EXPECT_EQ(report.traces, options.traces);
  EXPECT_TRUE(report.findings.empty()) << report.to_text();
  EXPECT_GT(report.primitives.at("reschedule").applied, 50) << report.to_text();
}

INSTANTIATE_TEST_SUITE_P(FromCase, FuzzAffine, ::testing::Values(0, 160));

TEST(Fuzz, TheNumberOfProcessesChangesNothing) {
  FuzzOptions options;
  options.seed = 4;
  options.traces = 150;
  options.backend = find_backend("llvm");
  const FuzzReport one = fuzz(options);
  options.processes = 3;
  const FuzzReport three = fuzz(options);
  EXPECT_EQ(one.traces, three.traces);
  EXPECT_EQ(one.steps, three.steps);
  EXPECT_EQ(one.cases, three.cases);
  EXPECT_EQ(one.not_lowered, three.not_lowered);
  for (const auto& [name, count] : one.primitives) {
    EXPECT_EQ(count.applied, three.primitives.at(name).applied) << name;
    EXPECT_EQ(count.refused, three.primitives.at(name).refused) << name;
  }
}

/// LLVM's code, but that every twentieth program or so ends its process when it runs.
Result<> compile_with_crashes(std::span<Job> jobs, const Target& target) {
  FETTLE_TRY_VOID(find_backend("llvm")->compile(jobs, target));
  for (Job& job : jobs)
    if (job.run && canonical_hash(job.scheduled).low % 20 == 0)
      job.run = [](std::span<void* const>, std::span<const int64_t>) -> Result<> { std::abort(); };
  return {};
}

TEST(Fuzz, WhatEndsAProcessIsAFindingAndTheOthersGoOn) {
  const Backend crashing{"crashing", "host", compile_with_crashes, "", nullptr};
  FuzzOptions options;
  options.seed = 5;
  options.traces = 200;
  options.backend = &crashing;
  options.max_findings = 60;
  options.shrink = false;
  const FuzzReport one = fuzz(options);
  EXPECT_EQ(one.traces, 200);
  EXPECT_GE(one.findings.size(), 2u);
  options.processes = 3;
  const FuzzReport three = fuzz(options);
  ASSERT_EQ(three.findings.size(), one.findings.size());
  for (size_t i = 0; i < one.findings.size(); ++i) {
    EXPECT_EQ(three.findings[i].case_number, one.findings[i].case_number);
    EXPECT_NE(three.findings[i].what.find("it crashes"), std::string::npos) << three.findings[i].what;
  }
}

// NVRTC needs no device: what is printed is at least CUDA C++.
TEST(Fuzz, SchedulesPrintedAsCudaCompile) {
  if (!has_nvrtc()) GTEST_SKIP() << "no NVRTC; FETTLE_NVRTC may name it";
  const auto target = std::make_shared<Target>(*parse_target("cuda"));
  DeviceProgram all;
  int made = 0, tensorized = 0;
  for (uint64_t seed = 0; made < 60; ++seed) {
    const Program program = seed % 2 == 0 ? random_program(seed) : random_tile_program(seed);
    const Made scheduled = random_schedule(program.func, target, seed, 10, [](const PrimitiveDef&, ErrorCode) {});
    const Func named = with(scheduled.schedule.func(), [&](FuncNode& f) { f.name = "job" + std::to_string(seed); });
    const auto lowered = lower_for_device(named, *target);
    if (!lowered) continue;
    all.kernels.insert(lowered->kernels.begin(), lowered->kernels.end());
    ++made;
    tensorized += std::ranges::any_of(scheduled.schedule.trace().steps,
                                      [](const auto& step) { return step->def->name == "tensorize"; });
  }
  EXPECT_GT(tensorized, 0);
  const auto source = emit_cuda(all);
  ASSERT_TRUE(source.has_value()) << source.error().to_string();
  const auto code = compile_cuda(*source, "sm_90");
  EXPECT_TRUE(code.has_value()) << code.error().to_string();
}

TEST(Fuzz, ProgramsAndSchedulesDependOnTheirSeedsAlone) {
  const auto target = std::make_shared<Target>(*parse_target("x86-64-avx512"));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const Program a = random_program(seed), b = random_program(seed);
    EXPECT_TRUE(structural_equal(a.func, b.func));
    EXPECT_EQ(a.ints, b.ints);
    const auto ignore = [](const PrimitiveDef&, ErrorCode) {};
    const Made x = random_schedule(a.func, target, seed, 10, ignore),
               y = random_schedule(b.func, target, seed, 10, ignore);
    EXPECT_EQ(to_text(x.schedule.trace()), to_text(y.schedule.trace()));
    EXPECT_TRUE(verify(x.schedule.func(), *target));
  }
}

TEST(Fuzz, StepsThatReferToDroppedOnesGoToo) {
  const Program program = random_program(3);
  const auto target = std::make_shared<Target>(*parse_target("x86-64-avx512"));
  const Made made = random_schedule(program.func, target, 5, 10, [](const PrimitiveDef&, ErrorCode) {});
  const ParsedTrace trace = as_parsed(made.schedule.trace());
  std::vector<bool> none(trace.steps.size(), false), all(trace.steps.size(), true);
  EXPECT_EQ(to_text(replay_without(program.func, target, trace, none).trace()), to_text(made.schedule.trace()));
  EXPECT_EQ(replay_without(program.func, target, trace, all).trace().size(), 0u);
  if (!none.empty()) {
    none[0] = true;
    EXPECT_LT(replay_without(program.func, target, trace, none).trace().size(), made.schedule.trace().size());
  }
}

}  // namespace
}  // namespace fettle::fuzz
