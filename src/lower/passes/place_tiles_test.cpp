#include <gtest/gtest.h>

#include <fmt/format.h>

#include "ir/text.h"
#include "lower/passes/passes.h"
#include "schedule/testing.h"
#include "target/tensor_intrinsic.h"

namespace fettle {
namespace {

using testing::error_text;

const Target& amx() {
  static const Target target = parse_target("x86-64-amx").value();
  return target;
}

IrModule module_of(const std::string& text) {
  IrModule module;
  const auto func = parse_func(text);
  EXPECT_TRUE(func) << error_text(func.error());
  module.entry = (*func)->name;
  module.funcs[module.entry] = *func;
  return module;
}

std::string placed(const std::string& text) {
  const auto result = place_tiles(module_of(text), amx());
  EXPECT_TRUE(result) << error_text(result.error());
  return result ? to_text(*result) : "";
}

int count(const std::string& text, std::string_view what) {
  int n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

constexpr const char* kHead = "lowered func f(A: bf16[65536], B: bf16[65536], D: f32[1024] output, n: i64 in 1..):\n";

// C[32, 32] of four tiles += rows of A times panels of B.
std::string product(int i, int j, int left, int right) {
  return fmt::format("      `llvm.x86.tdpbf16ps`.i32(&C[{}], 32, &A[k * 32 + {}], n, &B[k * 512 + {}], 32, 0)\n",
                     i * 512 + j * 16, left, right);
}

TEST(PlaceTiles, TwoByTwoTakeFourLoads) {
  std::string text = kHead;
  text +=
      "  allocate C: f32[1024] @tile\n  `llvm.x86.tilezero`.i32(&C[0], 32)\n  `llvm.x86.tilezero`.i32(&C[16], 32)\n";
  text += "  `llvm.x86.tilezero`.i32(&C[512], 32)\n  `llvm.x86.tilezero`.i32(&C[528], 32)\n  for k in 16:\n";
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j) text += product(i, j, i * 512, j * 8192);
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 2; ++j)
      text += fmt::format("  `llvm.x86.tilestored64`.i32(&C[{0}], 32, &D[{0}], 32)\n", i * 512 + j * 16);
  EXPECT_TRUE(testing::matches_golden(placed(text)));
}

// Six products of three parts of each factor: neighbours share one factor.
TEST(PlaceTiles, ProductsOfPartsShareTheirTiles) {
  constexpr std::pair<int, int> kParts[] = {{2, 0}, {0, 0}, {0, 2}, {0, 1}, {1, 1}, {1, 0}};
  std::string text = std::string(kHead) + "  allocate C: f32[1024] @tile\n  for k in 16:\n";
  for (const auto& [x, y] : kParts)
    for (int i = 0; i < 2; ++i)
      for (int j = 0; j < 2; ++j) text += product(i, j, x * 16384 + i * 512, y * 16384 + j * 8192);
  const std::string made = placed(text);
  EXPECT_EQ(count(made, "tdpbf16ps"), 24) << made;
  EXPECT_EQ(count(made, "tileloadd64"), 14) << made;
}

TEST(PlaceTiles, SumsInMemoryAreLoadedAndStored) {
  const std::string made = placed(
      "lowered func f(A: i8[1024], B: i8[1024], C: i32[256] output):\n"
      "  `llvm.x86.tdpbssd`.i32(&C[0], 16, &A[0], 64, &B[0], 64, 1)\n");
  EXPECT_EQ(count(made, "tileloadd64"), 2) << made;
  EXPECT_EQ(count(made, "tileloaddt164"), 1) << made;
  EXPECT_EQ(count(made, "tilestored64"), 1) << made;
  EXPECT_LT(made.find("tdpbssd"), made.find("tilestored64")) << made;
}

TEST(PlaceTiles, WhatIsStoredIsLoadedAnew) {
  const std::string made = placed(
      "lowered func f(A: bf16[512], B: bf16[512], X: f32[256], C: f32[256] output):\n"
      "  `llvm.x86.tdpbf16ps`.i32(&C[0], 16, &A[0], 32, &B[0], 32, 0)\n"
      "  `llvm.x86.tileloadd64`.i32(&C[0], 16, &X[0], 16)\n"
      "  `llvm.x86.tdpbf16ps`.i32(&C[0], 16, &A[0], 32, &B[0], 32, 0)\n");
  // C as it was, A, B; X. The second product finds all three in registers.
  EXPECT_EQ(count(made, "tileloadd64"), 4) << made;
  EXPECT_EQ(count(made, "tilestored64"), 3) << made;
}

TEST(PlaceTiles, AnnotatesWhoUsesThem) {
  const std::string call = "`llvm.x86.tdpbssd`.i32(&C[0], 16, &A[0], 64, &B[0], 64, 0)\n";
  const std::string head = "lowered func f(A: i8[1024], B: i8[1024], C: i32[256] output):\n";
  const auto serial = place_tiles(module_of(head + "  for i in 2:\n    " + call), amx());
  ASSERT_TRUE(serial);
  EXPECT_EQ(serial->funcs.at("f")->annotations.get_int(kHoldsTilesKey, 0), 1);
  const auto parallel = place_tiles(module_of(head + "  for i in 2 parallel:\n    " + call), amx());
  ASSERT_TRUE(parallel);
  EXPECT_EQ(parallel->funcs.at("f")->annotations.get_int(kHoldsTilesKey, 0), 0);
  EXPECT_EQ(parallel->funcs.at("f")->body.as<ForNode>()->annotations.get_int(kHoldsTilesKey, 0), 1);
}

TEST(PlaceTiles, RefusesWhatRegistersCannotBe) {
  const auto refused = [](const std::string& body) {
    const auto result = place_tiles(module_of(kHead + body), amx());
    EXPECT_FALSE(result) << body;
    return result ? std::string() : result.error().code == ErrorCode::E301 ? result.error().message : "another code";
  };
  EXPECT_NE(refused("  allocate C: f32[2304] @tile\n  `llvm.x86.tilezero`.i32(&C[0], 16)\n").find("registers"),
            std::string::npos);
  EXPECT_NE(refused("  allocate C: f32[1024] @tile\n  for i in 2:\n    `llvm.x86.tilezero`.i32(&C[i * 512], 32)\n")
                .find("constants"),
            std::string::npos);
  EXPECT_NE(refused("  allocate C: f32[256] @tile\n  C[0] = 1.0\n").find("whole tiles"), std::string::npos);
  EXPECT_NE(refused("  allocate C: f32[256] @tile\n  D[0] = C[0]\n").find("whole tiles"), std::string::npos);
  EXPECT_NE(refused("  allocate C: f32[1792] @tile\n  for k in 16:\n" + product(0, 0, 0, 0)).find("too few"),
            std::string::npos);
}

}  // namespace
}  // namespace fettle
