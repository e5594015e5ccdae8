#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

/// Panels of 8 of 20 channels of a 3x1 convolution of 78 rows; panels and rows are one loop f. `lanes`: how many
/// elements of a panel B holds; `reader`: which lanes read A.
std::string dropped(const std::string& surplus, const std::string& lanes = "8", const std::string& reader = "") {
  const Result<Func> func =
      parse_func("lowered func g(A: f32[78], B: f32[3, 3, " + lanes +
                 "], C: f32[78, 24] output):\n"
                 "  for f in 234 parallel:\n"
                 "    allocate R: f32[8] @register\n"
                 "    for j in 8 vectorized:\n"
                 "      R[j] = 0.0\n"
                 "    for k in 3:\n"
                 "      for j in 8 vectorized:\n"
                 "        if " +
                 surplus +
                 ":\n"
                 "          R[j] = R[j] + select(" +
                 reader +
                 "1 <= f % 78 + k && f % 78 + k < 79, A[f % 78 + k - 1], 0.0) * B[f // 78, k, j]\n"
                 "    for j in 8 vectorized:\n"
                 "      if " +
                 surplus +
                 ":\n"
                 "        C[f % 78, f // 78 * 8 + j] = R[j]\n");
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? to_text(drop_private_guards(*func)) : "";
}

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

// What all lanes read of A is read in any case: the first lane of a panel is never surplus.
TEST(DropPrivateGuards, OfPanelsAndRowsInOneLoop) {
  const std::string text = dropped("f // 78 * 8 + j < 20");
  EXPECT_EQ(count(text, "< 20"), 1) << "the store's alone: " << text;
  EXPECT_EQ(count(text, "f % 78 + k < 79"), 1) << text;
}

TEST(DropPrivateGuards, NotWhereALaneWouldReadBeyond) {
  const std::string text = dropped("f // 78 * 8 + j < 20", "4");
  EXPECT_EQ(count(text, "< 20"), 2) << text;
}

TEST(DropPrivateGuards, NotWhereTheFirstLaneDoesNotRead) {
  const std::string text = dropped("f // 78 * 8 + j < 20", "8", "3 <= j && ");
  EXPECT_EQ(count(text, "< 20"), 2) << text;
}

TEST(DropPrivateGuards, NotWhereAWholePanelIsSurplus) {
  // Of the third panel no lane counts: without its guard all of A would be read where it was not.
  const std::string text = dropped("f // 78 * 8 + j < 16");
  EXPECT_EQ(count(text, "< 16"), 2) << text;
}

// Blocks of 4 of 13 panels: of the last block three panels are surplus, and nothing of them is summed up. Of a panel
// that counts all lanes are.
TEST(DropPrivateGuards, NotWhatKeepsWholeTilesOut) {
  const Result<Func> func = parse_func(R"(lowered func g(A: f32[9], B: f32[13, 9, 8], C: f32[100] output):
  for b in 4:
    for p in 4:
      allocate R: f32[8] @register
      for j in 8 vectorized:
        R[j + p - p] = 0.0
      for k in 9:
        for j in 8 vectorized:
          if b * 32 + p * 8 + j < 100 && b * 4 + p < 13:
            R[j + p - p] = R[j + p - p] + A[k] * B[b * 4 + p, k, j]
      for j in 8 vectorized:
        if b * 32 + p * 8 + j < 100 && b * 4 + p < 13:
          C[b * 32 + p * 8 + j] = R[j + p - p]
)");
  ASSERT_TRUE(func) << func.error().to_string();
  const std::string text = to_text(drop_private_guards(*func));
  EXPECT_EQ(count(text, "p < 13"), 2) << text;
  EXPECT_EQ(count(text, "j < 100"), 1) << text;
}

}  // namespace
}  // namespace fettle
