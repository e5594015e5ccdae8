#include <gtest/gtest.h>

#include <vector>

#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

Func parsed(const std::string& text) {
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

constexpr const char* kHead = "lowered func f(A: f64[12, 12] output)";

// The innermost sums of a factorisation in place.
std::string factor(const std::string& annotations, const std::string& read) {
  return kHead + annotations +
         ":\n  for i in 12:\n    for j in i:\n      for k in j:\n        A[i, j] = A[i, j] - A[i, k] * " + read + "\n";
}

void expect_same(const Func& before, const Func& after) {
  std::vector<double> a(144);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<double>(i * 7 % 5) - 2;
  std::vector<double> b = a;
  ASSERT_TRUE(interpret(before, std::vector<BufferArg>{{a.data(), 144 * 8}}));
  ASSERT_TRUE(interpret(after, std::vector<BufferArg>{{b.data(), 144 * 8}}));
  EXPECT_EQ(a, b);
}

bool keeps(const Func& func) { return to_text(func).find("A_kept") != std::string::npos; }

TEST(HoistUpdates, ASumInPlaceIsKept) {
  const Func func = parsed(factor(" {in_order = 1}", "A[k, j]"));
  const Func made = hoist_updates(func);
  const std::string text = to_text(made);
  EXPECT_NE(text.find("A_kept[0] = A_kept[0] - A[i, k] * A[k, j]"), std::string::npos) << text;
  EXPECT_NE(text.find("if 0 < j"), std::string::npos) << text;
  expect_same(func, made);
}

// Code generators make lanes of such a loop where they see it.
TEST(HoistUpdates, ASumByItselfIsNoMicroKernel) {
  const Func func = hoist_updates(
      parsed("lowered func f(A: f64[64], B: f64[4] output) {in_order = 1}:\n  for i in 4:\n    for k in 16:\n"
             "      B[i] = B[i] + A[i * 16 + k]\n"));
  EXPECT_TRUE(to_text(func).find("B_kept") != std::string::npos);
  EXPECT_EQ(outline_micro_kernels(func).funcs.size(), 1u);
}

TEST(HoistUpdates, WhatMayReadTheElementKeepsItInMemory) {
  EXPECT_FALSE(keeps(hoist_updates(parsed(factor(" {in_order = 1}", "A[i, k + 1]")))));
  EXPECT_FALSE(keeps(hoist_updates(parsed(factor(" {in_order = 1}", "A[i, j + k]")))));
  EXPECT_TRUE(keeps(hoist_updates(parsed(factor(" {in_order = 1}", "A[j, k]")))));
}

TEST(HoistUpdates, ProgramsWithoutScansStay) {
  const Func func = parsed(factor("", "A[k, j]"));
  EXPECT_EQ(hoist_updates(func), func);
}

TEST(HoistUpdates, TilesOfLanesAndCopiesAreKeptWhole) {
  const auto tile = [](const char* columns) {
    return parsed(std::string(kHead) +
                  " {in_order = 1}:\n  for k in 4:\n    for i in 8 +: 2 unrolled:\n      for j in " + columns +
                  " vectorized:\n        A[i, j] = A[i, j] - A[i, k] * A[k, j]\n");
  };
  const Func func = tile("4 +: 8"), made = hoist_updates(func);
  EXPECT_NE(to_text(made).find("A_kept: f64[2, 8] @register"), std::string::npos) << to_text(made);
  expect_same(func, made);
  // Another lane would read what this one keeps.
  EXPECT_FALSE(keeps(hoist_updates(tile("3 +: 8"))));
}

// Copies that go on from one element follow one another, in memory: each needs what the one before has made.
TEST(HoistUpdates, CopiesOfOneElementAreNotKeptApart) {
  for (const char* place : {"A[0, 5]", "A[0, i + j]"}) {
    const Func func = parsed(std::string(kHead) +
                             " {in_order = 1}:\n  for k in 4:\n    for i in 8 +: 2 unrolled:\n      for j in 3 "
                             "unrolled:\n        " +
                             place + " = " + place + " - A[i, k] * A[k + 1, j]\n");
    const Func made = hoist_updates(func);
    EXPECT_FALSE(keeps(made)) << to_text(made);
    expect_same(func, made);
  }
}

// The loop moves the tile, though the place names the tile's loops alone.
TEST(HoistUpdates, WhatBeginsElsewhereInEachStepStays) {
  const Func func = parsed(std::string(kHead) +
                           " {in_order = 1}:\n  for k in 4:\n    for i in k * 2 +: 2 unrolled:\n"
                           "      A[i, 11] = A[i, 11] - A[i, k]\n");
  const Func made = hoist_updates(func);
  EXPECT_FALSE(keeps(made)) << to_text(made);
  expect_same(func, made);
}

}  // namespace
}  // namespace fettle
