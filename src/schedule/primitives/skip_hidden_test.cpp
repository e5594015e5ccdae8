#include "schedule/primitives/skip_hidden.h"

#include <cmath>

#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/merge.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/unroll.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// Attention of 6 queries and 8 keys, whose scores are given; `seen` says which keys j count for query i.
std::string attention(const std::string& seen) {
  const std::string x = "select(" + seen + ", X[i, j], -inf)";
  return R"(
func attention(X: f32[6, 8], V: f32[8, 3], O: f32[6, 3] output):
  alloc M: f32[6]
  alloc E: f32[6, 8]
  alloc S: f32[6]
  for mi in 6:
    for mj in 8:
      block M(i: spatial[6] = mi, j: reduce[8] = mj):
        reads X[i, j]
        writes M[i]
        init:
          M[i] = -inf
        M[i] = max(M[i], )" +
         x + R"()
  for ei in 6:
    for ej in 8:
      block E(i: spatial[6] = ei, j: spatial[8] = ej):
        reads X[i, j], M[i]
        writes E[i, j]
        E[i, j] = exp()" +
         x + R"( - M[i])
  for si in 6:
    for sj in 8:
      block S(i: spatial[6] = si, j: reduce[8] = sj):
        reads E[i, j]
        writes S[i]
        init:
          S[i] = 0.0
        S[i] = S[i] + E[i, j]
  for oi in 6:
    for oe in 3:
      for oj in 8:
        block O(i: spatial[6] = oi, e: spatial[3] = oe, j: reduce[8] = oj):
          reads E[i, j], S[i], V[j, e]
          writes O[i, e]
          init:
            O[i, e] = 0.0
          O[i, e] = O[i, e] + E[i, j] / S[i] * V[j, e]
)";
}

// In blocks of 2 keys and tiles of 3 queries: the loop over the blocks.
LoopRef by_blocks(testing::TestSchedule& s) {
  const auto states = reformulate(s, {s.block("O"), "online_reduction", {2}});
  EXPECT_OK(states);
  std::vector<LoopRef> steps;
  for (const size_t i : {1, 2, 3, 4, 6}) {  // the running maximum, exponentials, their sum, that so far, the output
    const std::vector<LoopRef> loops = s.loops((*states)[i]);  // step, query, …
    const auto tiles = split(s, {loops[1], {kInfer, 3}});
    EXPECT_OK(tiles);
    EXPECT_OK(reorder(s, {{(*tiles)[0], loops[0]}}));
    steps.push_back(loops[0]);
  }
  EXPECT_OK(compute_at(s, {(*states)[5], steps.back()}));
  const auto step = merge(s, {steps});
  EXPECT_OK(step);
  EXPECT_OK(compute_at(s, {(*states)[0], *step}));
  return *step;
}

std::vector<float> run(const Func& func) {
  std::vector<float> x(48), v(24), o(18, -1.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>((i * 37) % 23) / 4.0f - 2.0f;
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>((i * 11) % 7) - 3.0f;
  std::vector<BufferArg> args = {{x.data(), 192}, {v.data(), 96}, {o.data(), 72}};
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return o;
}

TEST(SkipHidden, EndsWhereNoQuerySeesMore) {
  auto s = schedule_from(attention("j <= i"));
  const LoopRef step = by_blocks(s);
  ASSERT_OK(skip_hidden(s, {step}));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
}

TEST(SkipHidden, WhatIsSeenStays) {
  for (const char* seen : {"j <= i", "j < i", "j <= i + 1", "j + 3 <= i", "j <= i && j != 2", "j * 2 <= i * 3 + 1"}) {
    SCOPED_TRACE(seen);
    auto s = schedule_from(attention(seen));
    const LoopRef step = by_blocks(s);
    ASSERT_OK(skip_hidden(s, {step}));
    const std::vector<float> before = run(s.original), after = run(s.func());
    for (size_t i = 0; i < before.size(); ++i)
      if (std::isnan(before[i]))
        EXPECT_TRUE(std::isnan(after[i])) << i;  // of no key that is seen
      else
        EXPECT_NEAR(before[i], after[i], 1e-5) << i;
  }
}

TEST(SkipHidden, E216WhereTheMaskDoesNotEnd) {
  for (const char* seen : {"i <= j", "j != i", "X[i, j] < 2.0", "j // 3 <= i"}) {
    auto s = schedule_from(attention(seen));
    const LoopRef step = by_blocks(s);
    EXPECT_ERROR(skip_hidden(s, {step}), E216);
  }
}

TEST(SkipHidden, E207WhereNothingIsHidden) {
  auto s = schedule_from(attention("j <= i"));
  EXPECT_ERROR(skip_hidden(s, {s.loop("mj")}), E207);
}

TEST(SkipHidden, E201Annotated) {
  auto s = schedule_from(attention("j <= i"));
  const LoopRef step = by_blocks(s);
  ASSERT_OK(unroll(s, {step}));
  EXPECT_ERROR(skip_hidden(s, {step}), E201);
}

}  // namespace
}  // namespace fettle
