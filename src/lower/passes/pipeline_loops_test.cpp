#include <gtest/gtest.h>

#include "lower/lower.h"
#include "lower/passes/passes.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/software_pipeline.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// The lowered program, for a CPU, computes the same.
::testing::AssertionResult same_lowered(const TestSchedule& s, std::vector<int64_t> ints = {}) {
  const auto lowered = lower(s.func(), *parse_target("x86-64-avx512"));
  if (!lowered) return ::testing::AssertionFailure() << lowered.error().to_string();
  std::vector<testing::TestTensor> tensors[2];
  for (int f = 0; f < 2; ++f) {
    testing::Env env;
    for (size_t i = 0; i < ints.size(); ++i) env.push(s.original->int_params[i].var.get(), ints[i]);
    std::vector<BufferArg> args;
    for (size_t p = 0; p < s.original->params.size(); ++p) {
      tensors[f].emplace_back(s.original->params[p].buffer, env);
      RandomStream stream{3, p};
      testing::for_each_index(tensors[f][p].logical_shape(), [&](const std::vector<int64_t>& index) {
        tensors[f][p].set(index, static_cast<int64_t>(stream.below(7)) - 3);
      });
    }
    for (auto& tensor : tensors[f]) args.push_back(tensor.arg());
    const Result<> done = f ? interpret(lowered->kernel, args, ints) : interpret(s.original, args, ints);
    if (!done) return ::testing::AssertionFailure() << done.error().to_string() << to_text(lowered->kernel);
    for (size_t p = 0; f == 1 && p < tensors[0].size(); ++p)
      if (std::memcmp(tensors[0][p].arg().data, tensors[1][p].arg().data,
                      static_cast<size_t>(tensors[0][p].arg().size_bytes)))
        return ::testing::AssertionFailure() << "parameter " << p << " differs\n" << to_text(lowered->kernel);
  }
  return ::testing::AssertionSuccess();
}

// Two stages: a copy of A is filled and used in each iteration of i.
struct Staged : TestSchedule {
  explicit Staged(const std::string& extent = "9")
      : TestSchedule(schedule_from("for i in " + extent + ": for j in 4: B[i, j] = A[i, j] * 2.0 + 1.0")) {
    const auto made = cache_read(*this, {block("B"), 0, "global", {}});
    EXPECT_OK(made);
    copy = *made;
    EXPECT_OK(compute_at(*this, {copy, (*get_loops(*this, {block("B")}))[0]}));
  }
  BlockRef copy{};
};
LoopRef outer_loop(TestSchedule& s) { return (*get_loops(s, {s.block("B")}))[0]; }

TEST(PipelineLoops, PrologueSteadyStateAndEpilogue) {
  Staged s;
  ASSERT_OK(software_pipeline(s, {outer_loop(s), {0, 1}, {0, 1}}));
  EXPECT_TRUE(same_lowered(s));
  EXPECT_GOLDEN(lower(s.func(), *parse_target("x86-64-avx512"), {.pipeline = Pipeline::kScalar})->kernel);
}

TEST(PipelineLoops, AllDepthsAndOrders) {
  for (const char* extent : {"1", "2", "3", "9"})
    for (const int64_t stage : {0, 1, 2, 5})
      for (const bool reader_first : {false, true}) {
        if (stage == 0 && reader_first) continue;
        SCOPED_TRACE(std::string(extent) + " iterations, stage " + std::to_string(stage));
        Staged s(extent);
        ASSERT_OK(software_pipeline(
            s, {outer_loop(s), {0, stage}, reader_first ? std::vector<int64_t>{1, 0} : std::vector<int64_t>{0, 1}}));
        EXPECT_TRUE(same_lowered(s));
      }
}

TEST(PipelineLoops, VersionsAreAsManyAsAreInUse) {
  const auto allocated = [](int64_t stage, std::vector<int64_t> order) {
    Staged s;
    EXPECT_OK(software_pipeline(s, {outer_loop(s), {0, stage}, order}));
    return to_text(lower(s.func(), *parse_target("x86-64-avx512"), {.pipeline = Pipeline::kScalar})->kernel);
  };
  EXPECT_NE(allocated(1, {0, 1}).find("A_global: f32[8]"), std::string::npos);   // two
  EXPECT_NE(allocated(1, {1, 0}).find("A_global: f32[4]"), std::string::npos);   // the reader goes first: one is enough
  EXPECT_NE(allocated(3, {0, 1}).find("A_global: f32[16]"), std::string::npos);  // four
}

TEST(PipelineLoops, ANumberOfIterationsThatIsKnownLater) {
  auto s = schedule_from(R"(func f(A: f32[n, 4], B: f32[n, 4] output, n: i64 in 1..64):
  alloc T: f32[n, 4]
  for i in n:
    for j in 4:
      block T(vi: spatial[n] = i, vj: spatial[4] = j):
        reads A[vi, vj]
        writes T[vi, vj]
        T[vi, vj] = A[vi, vj] * 2.0
    for j in 4:
      block B(wi: spatial[n] = i, wj: spatial[4] = j):
        reads T[wi, wj]
        writes B[wi, wj]
        B[wi, wj] = T[wi, wj] + 1.0
)");
  ASSERT_OK(software_pipeline(s, {s.loop("i"), {0, 2}, {0, 1}}));
  for (const int64_t n : {1, 2, 3, 7}) EXPECT_TRUE(same_lowered(s, {n})) << n;
}

TEST(PipelineLoops, DoubleBufferFetchesTheNextIterations) {
  Staged s;
  ASSERT_OK(double_buffer(s, {s.copy, 0}));
  EXPECT_TRUE(same_lowered(s));
  const std::string text =
      to_text(lower(s.func(), *parse_target("x86-64-avx512"), {.pipeline = Pipeline::kScalar})->kernel);
  EXPECT_NE(text.find("A_global: f32[8]"), std::string::npos) << text;
}

TEST(PipelineLoops, RegistersRunInOrder) {
  auto s = schedule_from("for i in 9: for j in 4: B[i, j] = A[i, j] + 1.0");
  const auto copy = cache_read(s, {s.block("B"), 0, "register", {}});
  ASSERT_OK(copy);
  ASSERT_OK(compute_at(s, {*copy, s.loop("i")}));
  ASSERT_OK(software_pipeline(s, {outer_loop(s), {0, 1}, {0, 1}}));
  EXPECT_TRUE(same_lowered(s));
}

}  // namespace
}  // namespace fettle
