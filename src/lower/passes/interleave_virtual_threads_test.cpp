#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/decoupled.h"
#include "lower/passes/decoupled_passes.h"
#include "target/accelerator.h"

namespace fettle {
namespace {

const Target kTarget = accelerator_target();

Func parsed(const std::string& text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

// The body of `text` after the two steps, as text of the whole function.
std::string interleaved(const std::string& text) {
  const Func func = parsed(text);
  const auto issued = issue_tasks(func->body);
  if (!issued) return issued.error().to_string();
  const auto done = interleave_virtual_threads(*issued, kTarget);
  if (!done) return done.error().to_string();
  return to_text(with(func, [&](FuncNode& f) { f.body = *done; }));
}

TEST(InterleaveVirtualThreads, TasksAlternateWithPlacesOfTheirOwn) {
  EXPECT_EQ(interleaved(R"(lowered func f(A: i32[64], B: i32[64] output):
  for t in 2 thread axis("vthread"):
    allocate S: i32[20] @acc
    for k in 2:
      for i in 16:
        S[i] = A[t * 32 + k * 16 + i]
      for i in 16:
        B[t * 32 + k * 16 + i] = S[i]
)"),
            R"(lowered func f(A: i32[64], B: i32[64] output):
  allocate S: i32[64] @acc
  for k in 2:
    issue "compute":
      for i in 16:
        S[i] = A[k * 16 + i]
    issue "compute":
      for i in 16:
        S[32 + i] = A[32 + k * 16 + i]
    issue "store":
      for i in 16:
        B[k * 16 + i] = S[i]
    issue "store":
      for i in 16:
        B[32 + k * 16 + i] = S[32 + i]
)");
}

TEST(InterleaveVirtualThreads, WhatDependsOnTheThreadIsRepeatedWhole) {
  EXPECT_EQ(interleaved(R"(lowered func f(A: i32[64], B: i32[64] output):
  allocate S: i32[64] @acc
  for t in 2 thread axis("vthread"):
    for k in t + 1:
      S[t * 16 + k] = A[t * 16 + k]
      B[t * 16 + k] = S[t * 16 + k]
)"),
            R"(lowered func f(A: i32[64], B: i32[64] output):
  allocate S: i32[64] @acc
  for k in 1:
    issue "compute":
      S[k] = A[k]
    issue "store":
      B[k] = S[k]
  for k in 2:
    issue "compute":
      S[16 + k] = A[16 + k]
    issue "store":
      B[16 + k] = S[16 + k]
)");
}

TEST(InterleaveVirtualThreads, ThreadsInThreads) {
  EXPECT_EQ(interleaved(R"(lowered func f(A: i32[64], B: i32[64] output):
  for t in 2 thread axis("vthread.x"):
    for u in 2 thread axis("vthread.y"):
      allocate S: i32[16] @acc
      S[0] = A[t * 2 + u]
      B[t * 2 + u] = S[0]
)"),
            R"(lowered func f(A: i32[64], B: i32[64] output):
  allocate S: i32[64] @acc
  issue "compute":
    S[0] = A[0]
  issue "compute":
    S[16] = A[1]
  issue "compute":
    S[32] = A[2]
  issue "compute":
    S[48] = A[3]
  issue "store":
    B[0] = S[0]
  issue "store":
    B[1] = S[16]
  issue "store":
    B[2] = S[32]
  issue "store":
    B[3] = S[48]
)");
}

TEST(InterleaveVirtualThreads, E301WhatBelongsToNoUnit) {
  const std::string text = interleaved("lowered func f(A: i32[4], B: i32[4] output):\n  B[0] = A[0]\n");
  EXPECT_NE(text.find("E301"), std::string::npos) << text;
  EXPECT_NE(text.find("a store to B belongs to no unit"), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
