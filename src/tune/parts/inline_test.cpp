#include "tune/parts/inline.h"

#include <gtest/gtest.h>

#include "schedule/dataflow/dataflow.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

constexpr const char* kChain = R"(
for i in 5: for j in 7: P[i, j] = A[i, j] + 1
for i in 5: for j in 7: for k in 3: C[i, j] += P[i, k] * B[k, j]
for i in 5: for j in 7: D[i, j] = C[i, j] + bias[j]
for i in 5: for j in 7: E[i, j] = max(D[i, j], 0)
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
  EXPECT_FALSE(try_inline(s, "E"));                   // the output
  EXPECT_FALSE(try_inline(s, "none"));                // no such block
  EXPECT_FALSE(try_inline_into_producer(s, "P"));     // nothing makes A
  EXPECT_EQ(to_text(s.trace()), before);
  EXPECT_TRUE(try_inline(s, "D"));
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
