#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

std::string annihilated(const std::string& scope, const std::string& kind) {
  const Result<Func> func = parse_func(
      "lowered func f(A: f32[400], B: f32[9], C: f32[400] output):\n"
      "  for i in 9:\n"
      "    allocate R: f32[16]" +
      scope +
      "\n"
      "    for j in 16" +
      kind +
      ":\n"
      "      R[j] = R[j] + select(1 <= i && 1 <= j, A[i * 16 + j - 1], 0.0) * B[i]\n"
      "    for j in 16" +
      kind +
      ":\n"
      "      C[i * 16 + j] = R[j]\n");
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? to_text(annihilate_guards(*func)) : "";
}

TEST(AnnihilateGuards, WhatLanesDecideMasksWhatIsReadAlone) {
  const std::string text = annihilated(" @register", " vectorized");
  EXPECT_NE(text.find("if 1 <= i:"), std::string::npos) << text;
  EXPECT_NE(text.find("select(1 <= j, A["), std::string::npos) << text;
}

TEST(AnnihilateGuards, AllElseBecomesControl) {
  for (const auto& [scope, kind] : {std::pair{" @register", ""}, std::pair{"", " vectorized"}}) {
    const std::string text = annihilated(scope, kind);
    EXPECT_NE(text.find("if 1 <= i && 1 <= j:"), std::string::npos) << text;
    EXPECT_EQ(text.find("select("), std::string::npos) << text;
  }
}

// What is read within an image, and that only where there is a tap.
TEST(AnnihilateGuards, OneSelectionInsideOfAnother) {
  const Result<Func> func = parse_func(
      "lowered func f(A: f32[400], B: f32[9], C: f32[9] output):\n"
      "  for i in 9:\n"
      "    for k in 3:\n"
      "      C[i] = C[i] + select(k < i, select(1 <= i, A[i + k - 1], 0.0), 0.0) * B[k]\n");
  ASSERT_TRUE(func) << func.error().to_string();
  const std::string text = to_text(annihilate_guards(*func));
  EXPECT_NE(text.find("if k < i && 1 <= i:"), std::string::npos) << text;
  EXPECT_EQ(text.find("select("), std::string::npos) << text;
}

// What is neutral for an ordered maximum is so beside the old value in its place alone: else NaN would become -inf.
TEST(AnnihilateGuards, OfAnOrderedMaximum) {
  for (const bool in_place : {true, false}) {
    const std::string guarded = "select(1 <= i, A[i - 1], -inf)";
    const Result<Func> func =
        parse_func("lowered func f(A: f32[9], C: f32[1] output):\n  for i in 9:\n    C[0] = ordered_max(" +
                   (in_place ? guarded + ", C[0])\n" : "C[0], " + guarded + ")\n"));
    ASSERT_TRUE(func) << func.error().to_string();
    const std::string text = to_text(annihilate_guards(*func));
    EXPECT_EQ(text.find("C[0] = ordered_max(A[i - 1], C[0])\n") != std::string::npos, in_place) << text;
    EXPECT_EQ(text.find("select(") == std::string::npos, in_place) << text;
  }
}

TEST(FoldControl, ZerosOfAMaskedReadNeedNoSelection) {
  const Result<Func> func = parse_func(
      "lowered func f(A: f32[400], C: f32[400] output):\n"
      "  for j in 16 vectorized:\n"
      "    C[j] = select(1 <= j, A[j], 0.0)\n");
  ASSERT_TRUE(func) << func.error().to_string();
  const std::string text = to_text(fold_control(vectorize_loops((*func)->body)));
  EXPECT_EQ(text.find("select("), std::string::npos) << text;
  EXPECT_NE(text.find("A[ramp(0, 1, 16) if "), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
