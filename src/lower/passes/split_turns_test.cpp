#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

std::string split(const std::string& text) {
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? to_text(split_turns(*func)->body) : "";
}

/// Tiles of 4 keys, of which `keys` are left, at most 16.
std::string tiles(const std::string& keys, const std::string& of_all) {
  return "lowered func f(A: f32[16, 8], C: f32[16, 8] output, n: i64 in 1..16):\n"
         "  allocate M: f32[8] @register\n"
         "  for t in 4:\n"
         "    allocate R: f32[4, 8] @register\n"
         "    for k in 8:\n"
         "      for i in 4 unrolled:\n"
         "        if t * 4 + i < " +
         keys +
         ":\n"
         "          R[i, 0] = A[t * 4 + i, k]\n"
         "    for i in 4 unrolled:\n"
         "      if t * 4 + i < " +
         keys +
         ":\n"
         "        M[i] = R[i, 0]\n" +
         of_all;
}

TEST(SplitTurns, WholeTilesComeWithoutGuardsAndEmptyOnesDoNot) {
  EXPECT_EQ(split(tiles("n", "")),
            "allocate M: f32[8] @register\n"
            "for t in n // 4:\n"
            "  allocate R: f32[4, 8] @register\n"
            "  for k in 8:\n"
            "    for i in 4 unrolled:\n"
            "      R[i, 0] = A[t * 4 + i, k]\n"
            "  for i in 4 unrolled:\n"
            "    M[i] = R[i, 0]\n"
            "for t in n // 4 +: (n + 3) // 4 - n // 4:\n"
            "  allocate R: f32[4, 8] @register\n"
            "  for k in 8:\n"
            "    for i in 4 unrolled:\n"
            "      if t * 4 + i < n:\n"
            "        R[i, 0] = A[t * 4 + i, k]\n"
            "  for i in 4 unrolled:\n"
            "    if t * 4 + i < n:\n"
            "      M[i] = R[i, 0]\n");
}

TEST(SplitTurns, OfKnownNumbersTheyAreKnown) {
  const std::string text = split(tiles("9", ""));
  EXPECT_NE(text.find("for t in 2:\n"), std::string::npos) << text;
  EXPECT_NE(text.find("for t in 2 +: 1:\n"), std::string::npos) << text;
}

// What all turns do, they do.
TEST(SplitTurns, EffectsWithoutGuardsStay) {
  const std::string text = split(tiles("n", "    C[t, 0] = 1.0\n"));
  EXPECT_NE(text.find("for t in n // 4 +: 4 - n // 4:\n"), std::string::npos) << text;
}

// Selected values are zeros in late turns, and selections are gone.
TEST(SplitTurns, SelectionsAreDecided) {
  EXPECT_EQ(split("lowered func f(A: f32[16], C: f32[16] output, n: i64 in 1..16):\n"
                  "  allocate S: f32[1] @register\n"
                  "  for k in 16:\n"
                  "    C[k] = select(k < n, A[k] * 2.0, 0.0)\n"),
            "allocate S: f32[1] @register\n"
            "for k in n:\n"
            "  C[k] = A[k] * 2.0\n"
            "for k in n +: 16 - n:\n"
            "  C[k] = 0.0\n");
}

// Lanes that a guard speaks of, loops outside of micro-kernels, and guards that memory decides.
TEST(SplitTurns, OthersStay) {
  for (const char* body : {"  allocate S: f32[1] @register\n"
                           "  for k in 4:\n"
                           "    for j in 4 vectorized:\n"
                           "      if k * 4 + j < n:\n"
                           "        C[k * 4 + j] = 1.0\n",
                           "  for k in 16:\n"
                           "    if k < n:\n"
                           "      C[k] = 1.0\n",
                           "  allocate S: f32[1] @register\n"
                           "  for k in 16:\n"
                           "    if k < L[0]:\n"
                           "      C[k] = 1.0\n"}) {
    const Result<Func> func =
        parse_func("lowered func f(L: i64[1], C: f32[16] output, n: i64 in 1..16):\n" + std::string(body));
    ASSERT_TRUE(func) << func.error().to_string();
    EXPECT_EQ(to_text(split_turns(*func)), to_text(*func));
  }
}

}  // namespace
}  // namespace fettle
