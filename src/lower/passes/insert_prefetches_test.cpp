// Requests ahead of the reads that they are for.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/visit.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

Func with_prefetches(const std::string& text) {
  const IrModule module = parse_module(text).value();
  const Func func = module.funcs.begin()->second;
  return with(func, [&](FuncNode& f) { f.body = insert_prefetches(func->body); });
}

// A tile of 4 rows of 32 is one run of 128 elements: each of the 32 turns of k asks for 4 of the next tile's. Since
// four turns ask for the same line, it comes into all caches. The vectors of B do not move with i.
TEST(InsertPrefetches, WhatTheNextTileReadsIsSpreadOverTheTurnsInside) {
  EXPECT_EQ(to_text(with_prefetches(R"(lowered func f(A: f32[512], B: f32[512], C: f32[64] output):
  for i in 4 {prefetch = 1}:
    for k in 32:
      for r in 4 unrolled:
        for l in 16 vectorized:
          C[i * 16 + l] = C[i * 16 + l] + A[i * 128 + r * 32 + k] * B[k * 16 + l]
)")),
            R"(lowered func f(A: f32[512], B: f32[512], C: f32[64] output):
  for i in 4:
    for k in 32:
      prefetch.i32(&C[k + (i + 1) * 16], 3i32)
      prefetch.i32(&A[k * 4 + (i + 1) * 128], 3i32)
      for r in 4 unrolled:
        for l in 16 vectorized:
          C[i * 16 + l] = C[i * 16 + l] + A[i * 128 + r * 32 + k] * B[k * 16 + l]
)");
}

TEST(InsertPrefetches, AnInnermostLoopAsksForItsOwnVectors) {
  const std::string text = to_text(with_prefetches(R"(lowered func f(A: f32[512], B: f32[4096], C: f32[16] output):
  for k in 64 {prefetch = 8}:
    for l in 16 vectorized:
      C[l] = C[l] + A[k] * B[k * 64 + l]
)"));
  EXPECT_NE(text.find("prefetch.i32(&B[(k + 8) * 64], 2i32)"), std::string::npos) << text;
  EXPECT_EQ(text.find("&A["), std::string::npos) << "single elements of one line: " << text;
}

// The loop adds to registers from outside: what it reads beside the loop inside is asked for, too, once an iteration.
// Where each iteration begins its own sums, what it does with them is left alone.
TEST(InsertPrefetches, WhatScalesTheSumsOfALoop) {
  const auto scaled = [](const std::string& before, const std::string& inside) {
    return to_text(with_prefetches("lowered func f(A: f32[4096], S: f32[512], C: f32[512] output):\n" + before +
                                   "  for b in 8 {prefetch = 2}:\n" + inside + R"(    allocate P: f32[32] @register
    for k in 16:
      for l in 32 vectorized:
        P[l] = P[l] + A[b * 512 + k * 32 + l]
    for l in 32 vectorized:
      T[l] = T[l] + P[l] * S[b * 32 + l]
)"));
  };
  const std::string text = scaled("  allocate T: f32[32] @register\n", "");
  EXPECT_NE(text.find("prefetch.i32(&S[(b + 2) * 32], 2i32)"), std::string::npos) << text;
  EXPECT_NE(text.find("prefetch.i32(&S[(b + 2) * 32 + 16], 2i32)"), std::string::npos) << text;
  EXPECT_NE(text.find("prefetch.i32(&A["), std::string::npos) << text;
  const std::string own = scaled("", "    allocate T: f32[32] @register\n");
  EXPECT_EQ(own.find("&S["), std::string::npos) << own;
}

// What a tensor intrinsic reads is one run, though its rows lie in pairs. Copies beside it ask for nothing.
TEST(InsertPrefetches, WhatTilesOfAnIntrinsicRead) {
  const std::string text = to_text(with_prefetches(R"(lowered func f(A: bf16[16384], B: bf16[8192], C: f32[8192] output):
  for j in 4 {prefetch = 1}:
    for r in 8:
      for k in 4:
        for i in 16 {tensorize = "amx_bf16"}:
          for l in 16 vectorized:
            for s in 32:
              C[r * 1024 + i * 64 + j * 16 + l] = C[r * 1024 + i * 64 + j * 16 + l] + f32(A[r * 2048 + i * 128 + k * 32 + s]) * f32(B[j * 2048 + k * 512 + s // 2 * 32 + l * 2 + s % 2])
      for i in 16:
        for l in 16 vectorized:
          C[r * 1024 + i * 64 + j * 16 + l] = C[r * 1024 + i * 64 + j * 16 + l] * 2.0
)"));
  EXPECT_NE(text.find(R"(      for k in 4:
        prefetch.i32(&B[(r * 4 + k) * 64 + (j + 1) * 2048], 2i32)
        prefetch.i32(&B[(r * 4 + k) * 64 + (j + 1) * 2048 + 32], 2i32)
        for i in 16 {tensorize)"),
            std::string::npos)
      << text;
  EXPECT_EQ(text.find("prefetch.i32(&C"), std::string::npos) << text;
}

// Behind each of the steps that make one iteration, so that none loads before its turn.
TEST(InsertPrefetches, WhatIsNearIsAskedForBehindEachStep) {
  EXPECT_EQ(to_text(with_prefetches(R"(lowered func f(A: f32[128], B: f32[4096], C: f32[32] output):
  for k in 32:
    for u in 4 unrolled {prefetch_near = 8}:
      for l in 32 vectorized:
        C[l] = C[l] + A[k * 4 + u] * B[k * 128 + u * 32 + l]
)")),
            R"(lowered func f(A: f32[128], B: f32[4096], C: f32[32] output):
  for k in 32:
    for u in 4 unrolled:
      for l in 32 vectorized:
        C[l] = C[l] + A[k * 4 + u] * B[k * 128 + u * 32 + l]
      prefetch.i32(&B[k * 128 + (u + 8) * 32])
      prefetch.i32(&B[k * 128 + (u + 8) * 32 + 16])
)");
}

TEST(InsertPrefetches, LeavesAloneWhatIsNoRunOfMemory) {
  const std::string text = to_text(with_prefetches(R"(lowered func f(A: f32[4096], C: f32[64] output):
  for i in 4 {prefetch = 1}:
    for k in 16:
      for r in 4 unrolled:
        C[i] = C[i] + A[i * 256 + r * 64 + k]
)"));
  EXPECT_EQ(text.find("&A["), std::string::npos) << text;
}

TEST(InsertPrefetches, LeavesAloneWhatAnIterationMakesItself) {
  const std::string text = to_text(with_prefetches(R"(lowered func f(A: f32[4096], C: f32[64] output):
  for i in 4 {prefetch = 1}:
    for j in 16:
      allocate T: f32[64]
      T[i * 16 + j] = A[i * 16 + j]
      C[i * 16 + j] = T[i * 16 + j]
)"));
  EXPECT_NE(text.find("&A["), std::string::npos) << text;
  EXPECT_EQ(text.find("&T["), std::string::npos) << text;
}

// Eight rows of two lines are shared by two turns of i: four rows each, one line of them in each turn of k.
TEST(InsertPrefetches, TilesAskForTheRowsThatTheNextPanelIsFilledWith) {
  const std::string program = R"(lowered func f(A: f32[64], B: f32[1024], C: f32[256] output):
  for p in 4 {prefetch = 1}:
    allocate T: f32[256]
    for k in 8:
      for v in 2:
        for l in 16 vectorized:
          T[k * 32 + v * 16 + l] = B[k * 128 + p * 32 + v * 16 + l]
    for i in 2:
      for k in 8:
        for l in 32 vectorized:
          C[i * 128 + p * 32 + l] = C[i * 128 + p * 32 + l] + A[i * 8 + k] * T[k * 32 + l]
)";
  const std::string text = to_text(with_prefetches(program));
  EXPECT_EQ(text.find("&T["), std::string::npos) << text;
  const size_t tiles = text.find("for i in 2:");
  EXPECT_EQ(text.find("&B["), text.rfind("&B[")) << "once: " << text;
  EXPECT_GT(text.find("prefetch.i32(&B[i * 4 * 128 + min(k // 2, 3) * 128 + k % 2 * 16 + (p + 1) * 32], 2i32)"), tiles)
      << text;
}

// However many tiles there are, they share the next panel: of one tile each turn of k asks for two lines, of two tiles
// for one.
TEST(InsertPrefetches, AnOpenNumberOfTurnsSharesARun) {
  EXPECT_EQ(to_text(with_prefetches(
                R"(lowered func f(A: f32[n * 64], B: f32[8192], C: f32[n * 128] output, n: i64 in 0..100):
  for p in 4 {prefetch = 1}:
    for r in n:
      for k in 64:
        for l in 32 vectorized:
          C[r * 128 + p * 32 + l] = C[r * 128 + p * 32 + l] + A[r * 64 + k] * B[p * 2048 + k * 32 + l]
)")),
            R"(lowered func f(A: f32[n * 64], B: f32[8192], C: f32[n * 128] output, n: i64 in 0..100):
  for p in 4:
    let step = (max(n, 1) * 64 + 2047) // (max(n, 1) * 64)
    for r in n:
      for k in 64:
        prefetch.i32(&B[r * (step * 64) + k * step + (p + 1) * 2048], 2i32)
        prefetch.i32(&B[r * (step * 64) + k * step + (p + 1) * 2048 + 16], 2i32)
        for l in 32 vectorized:
          C[r * 128 + p * 32 + l] = C[r * 128 + p * 32 + l] + A[r * 64 + k] * B[p * 2048 + k * 32 + l]
)");
}

}  // namespace
}  // namespace fettle
