// Buffers that each iteration of a loop makes anew: what reads them stays in its iteration.
#include "schedule/dataflow/repetition.h"

#include <gtest/gtest.h>

#include "ir/visit.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

// In each step t: P is filled, B is made of it, and C reads B: of this step, or, ahead of B, of the one before.
TestSchedule steps(bool of_step_before) {
  const std::string b = R"(    for i in 6:
      block B(vi: spatial[6] = i):
        reads P[vi]
        writes B[vi]
        B[vi] = P[vi] + 1.0
)";
  const std::string c = R"(    for i in 6:
      block C(vt: spatial[4] = t, vi: spatial[6] = i):
        reads B[vi]
        writes C[vt, vi]
        C[vt, vi] = select(0 < vt, B[vi], 0.0)
)";
  return schedule_from(R"(
func steps(A: f32[4, 6], D: f32[4, 6] output):
  alloc P: f32[6]
  alloc B: f32[6]
  alloc C: f32[4, 6]
  for t in 4:
    for i in 6:
      block P(vt: scan[4] = t, vi: spatial[6] = i):
        reads A[vt, vi]
        writes P[vi]
        P[vi] = A[vt, vi] * 2.0
)" + (of_step_before ? c + b : b + c) +
                       R"(  for t in 4:
    for i in 6:
      block D(vt: spatial[4] = t, vi: spatial[6] = i):
        reads C[vt, vi]
        writes D[vt, vi]
        D[vt, vi] = C[vt, vi] * 2.0
)");
}

LoopRef inner_loop(TestSchedule& s, const char* block) { return get_loops(s, {s.block(block)})->back(); }

TEST(Repetition, WhatEachIterationMakesAnew) {
  const auto s = steps(false);
  const Func& func = s.func();
  const auto* t = loops_around(func, find_block(func->body, "P")).front();
  const auto of = [&](const char* block) {
    return changes_with(func, find_block(func->body, block)->writes[0].buffer.get(), t);
  };
  EXPECT_TRUE(of("P"));   // each step overwrites the one before
  EXPECT_TRUE(of("B"));   // made of that
  EXPECT_FALSE(of("C"));  // each step has elements of its own
  EXPECT_FALSE(of("D"));  // elsewhere
}

TEST(Repetition, ABlockMovesWithinItsStep) {
  auto s = steps(false);
  ASSERT_OK(reverse_compute_at(s, {s.block("B"), inner_loop(s, "P")}));  // in every step, not in the last alone
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  auto at = steps(false);
  ASSERT_OK(compute_at(at, {at.block("B"), inner_loop(at, "C")}));
  EXPECT_SAME_RESULT(at);
  auto inlined = steps(false);
  ASSERT_OK(compute_inline(inlined, {inlined.block("B")}));
  EXPECT_SAME_RESULT(inlined);
}

TEST(Repetition, ABlockDoesNotLeaveItsStep) {
  auto s = steps(false);
  EXPECT_ERROR(compute_at(s, {s.block("C"), inner_loop(s, "D")}), E211);
  EXPECT_ERROR(compute_inline(s, {s.block("C")}), E214);
  // B alone does not say which step is C's.
  EXPECT_ERROR(reverse_compute_at(s, {s.block("C"), inner_loop(s, "B")}), E211);
  // P would hold what B is in the last step alone.
  EXPECT_ERROR(reverse_compute_inline(s, {s.block("B")}), E214);
}

TEST(Repetition, ABlockStaysBehindReadersOfTheStepBefore) {
  auto s = steps(true);
  EXPECT_ERROR(reverse_compute_at(s, {s.block("B"), inner_loop(s, "P")}), E211);
  EXPECT_ERROR(compute_at(s, {s.block("B"), inner_loop(s, "C")}), E211);
  EXPECT_ERROR(compute_inline(s, {s.block("B")}), E214);
  EXPECT_ERROR(reverse_compute_inline(s, {s.block("B")}), E214);
}

// Each iteration of k makes a row of P and adds it to S, which the last one hands on.
TEST(Repetition, ABlockDoesNotReadWhatLaterIterationsMake) {
  auto s = schedule_from(R"(
func sums(A: f32[4, 6], D: f32[6] output):
  alloc P: f32[4, 6]
  alloc S: f32[6]
  for k in 4:
    for l in 6:
      block P(vk: spatial[4] = k, vl: spatial[6] = l):
        reads A[vk, vl]
        writes P[vk, vl]
        P[vk, vl] = A[vk, vl] * 2.0
      block S(vk: reduce[4] = k, vl: spatial[6] = l):
        reads P[vk, vl]
        writes S[vl]
        init:
          S[vl] = 0.0
        S[vl] = S[vl] + P[vk, vl]
      for u in 1:
        block D(vl: spatial[6] = l) where k == 3:
          reads S[vl]
          writes D[vl]
          D[vl] = S[vl]
)");
  // Below u all of S would be made in each iteration, of rows that are not there yet.
  EXPECT_ERROR(compute_at(s, {s.block("S"), inner_loop(s, "D")}), E211);
}

}  // namespace
}  // namespace fettle
