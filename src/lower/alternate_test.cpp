#include "lower/alternate.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

TEST(AlternatingLoops, RunBackwardsWhereTurnIsOne) {
  const Func func = parse_func(R"(lowered func f(A: f32[24], C: f32[24] output):
  for i in 8 {alternates = 1}:
    for j in 3:
      C[i * 3 + j] = A[i * 3 + j]
)")
                        .value();
  EXPECT_EQ(to_text(alternate_loops(func)), R"(lowered func f(A: f32[24], C: f32[24] output, turn: i64 in 0..1):
  for i in 8:
    for j in 3:
      C[(i + turn * (7 - i * 2)) * 3 + j] = A[(i + turn * (7 - i * 2)) * 3 + j]
)");
}

// What comes next, in either direction.
TEST(AlternatingLoops, AskAheadForWhatComesNext) {
  const Func func = parse_func(R"(lowered func f(A: f32[256], C: f32[8] output):
  for i in 8 {prefetch = 1, alternates = 1}:
    for k in 32:
      C[i] = C[i] + A[i * 32 + k]
)")
                        .value();
  const std::string text = to_text(insert_prefetches(alternate_loops(func)->body));
  EXPECT_NE(text.find("prefetch.i32(&A[k + ((i + 1) * 32 + turn * (7 - (i + 1) * 2) * 32)]"), std::string::npos)
      << text;
}

TEST(AlternatingLoops, AreTheOutermostSerialOnesOfAnyOrder) {
  const auto text = [](const std::string& loops) { return "func f(A: f32[4, 8], C: f32[4, 8] output):\n" + loops; };
  const std::string free = text(R"(  for i in 4:
    for j in 8:
      block C(vi: spatial[4] = i, vj: spatial[8] = j):
        reads A[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = A[vi, vj]
)");
  const Func made = with_alternating_loops(parse_func(free).value());
  EXPECT_NE(to_text(made).find("for i in 4 {alternates = 1}:\n    for j in 8:"), std::string::npos) << to_text(made);
  // Threads keep the parts that they have.
  std::string shared = free;
  shared.replace(shared.find("in 4:"), 5, "in 4 parallel:");
  const Func parallel = parse_func(shared).value();
  EXPECT_EQ(with_alternating_loops(parallel), parallel);
  // A sum would be another one.
  const Func sum = parse_func(R"(func f(A: f32[4, 8], C: f32[8] output):
  for i in 4:
    for j in 8:
      block C(vj: spatial[8] = j, vi: reduce[4] = i):
        reads A[vi, vj]
        writes C[vj]
        init:
          C[vj] = 0.0
        C[vj] = C[vj] + A[vi, vj]
)")
                       .value();
  EXPECT_EQ(with_alternating_loops(sum), sum);
}

}  // namespace
}  // namespace fettle
