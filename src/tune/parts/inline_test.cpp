#include "tune/parts/inline.h"

#include <gtest/gtest.h>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kChain = R"(
func chain(A: f32[5, 3], B: f32[3, 7], bias: f32[7], E: f32[5, 7] output):
  alloc P: f32[5, 3]
  alloc C: f32[5, 7]
  alloc D: f32[5, 7]
  for i in 5:
    for k in 3:
      block P(vi: spatial[5] = i, vk: spatial[3] = k):
        reads A[vi, vk]
        writes P[vi, vk]
        P[vi, vk] = A[vi, vk] + 1.0
  for i in 5:
    for j in 7:
      for k in 3:
        block C(vi: spatial[5] = i, vj: spatial[7] = j, vk: reduce[3] = k):
          reads P[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + P[vi, vk] * B[vk, vj]
  for i in 5:
    for j in 7:
      block D(vi: spatial[5] = i, vj: spatial[7] = j):
        reads C[vi, vj], bias[vj]
        writes D[vi, vj]
        D[vi, vj] = C[vi, vj] + bias[vj]
  for i in 5:
    for j in 7:
      block E(vi: spatial[5] = i, vj: spatial[7] = j):
        reads D[vi, vj]
        writes E[vi, vj]
        E[vi, vj] = max(D[vi, vj], 0.0)
)";

size_t blocks_in(const Schedule& s) { return blocks_of(s.func().root()).size(); }

TEST(Inline, ConsumersJoinWhatTheyRead) {
  auto s = schedule_from(kChain);
  const auto back = cache_write(s, {.block = s.block("C"), .scope = kScopeRegister});
  ASSERT_OK(back);
  inline_consumers(s, *back);
  EXPECT_EQ(blocks_in(s), 3u);  // P, C, and what writes E
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
}

TEST(Inline, ProducersJoinWhatReadsThem) {
  auto s = schedule_from(kChain);
  inline_producers(s, "C");
  EXPECT_EQ(blocks_in(s), 3u);
  inline_producers(s, "E");  // but for the reduction
  EXPECT_EQ(blocks_in(s), 2u);
  EXPECT_SAME_RESULT(s);
}

TEST(Inline, WhatIsRefusedLeavesNothing) {
  auto s = schedule_from(kChain);
  const std::string before = to_text(s.trace());
  EXPECT_FALSE(try_inline(s, "E"));                // the output
  EXPECT_FALSE(try_inline(s, "none"));             // no such block
  EXPECT_FALSE(try_inline_into_producer(s, "P"));  // nothing makes A
  EXPECT_EQ(to_text(s.trace()), before);
  EXPECT_TRUE(try_inline(s, "D"));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
