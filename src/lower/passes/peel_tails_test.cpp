#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

Func lowered(const std::string& text) {
  const Result<Func> func = parse_func(text);
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

std::string row(int64_t turns, int64_t extent) {
  return "lowered func f(A: f32[400], B: f32[400] output):\n"
         "  for i in " +
         std::to_string(turns) +
         ":\n"
         "    for j in 16 vectorized:\n"
         "      if i * 16 + j < " +
         std::to_string(extent) +
         ":\n"
         "        B[i * 16 + j] = A[i * 16 + j] + 1.0\n";
}

TEST(PeelTails, TheLastTurnAloneKeepsItsGuard) {
  const std::string text = to_text(peel_tails(lowered(row(13, 197))));
  EXPECT_NE(text.find("for i in 12:"), std::string::npos) << text;
  EXPECT_EQ(text.find("i * 16 + j < 197"), std::string::npos) << text;
  EXPECT_NE(text.find("< 197"), std::string::npos) << text;
}

// So do those of an open number, of which those that tiles fill are whole; the turns of a parallel loop are told apart.
TEST(PeelTails, TurnsOfAnOpenNumber) {
  const auto open = [](const std::string& range, const std::string& turns, const std::string& end = "n") {
    return to_text(peel_tails(lowered("lowered func f(A: f32[n * 2], B: f32[n * 2] output, n: i64 in " + range +
                                      "):\n"
                                      "  for i in " +
                                      turns +
                                      ":\n"
                                      "    for j in 16 vectorized:\n"
                                      "      if i * 16 + j < " +
                                      end +
                                      ":\n"
                                      "        B[i * 16 + j] = A[i * 16 + j] + 1.0\n")));
  };
  const auto guards = [](const std::string& text) {
    int n = 0;
    for (size_t at = text.find("if "); at != std::string::npos; at = text.find("if ", at + 1)) ++n;
    return n;
  };
  for (const char* range : {"1..512", "0..512"}) {
    const std::string text = open(range, "(n + 15) // 16");
    EXPECT_NE(text.find("for i in n // 16:"), std::string::npos) << text;
    EXPECT_NE(text.find("if n // 16 < (n + 15) // 16:"), std::string::npos) << text << "16 rows leave none";
    EXPECT_EQ(guards(text), 2) << text;
  }
  const std::string parallel = open("0..512", "(n + 15) // 16 parallel");
  EXPECT_EQ(guards(parallel), 2) << parallel;
  // Of tiles that are no quotient all but the last.
  const std::string sum = open("1..512", "n // 8 + 1", "n * 2");
  EXPECT_NE(sum.find("for i in n // 8:"), std::string::npos) << sum;
  EXPECT_EQ(guards(sum), 1) << sum;
}

// A transform of an image's tile: what the image's rows ask stays, what is allocated serves both parts.
TEST(PeelTails, GuardsOfOtherLoopsAndMemoryAreInNobodysWay) {
  const std::string text =
      to_text(peel_tails(lowered("lowered func f(A: f32[4000], B: f32[4000] output):\n"
                                 "  for h in 8:\n"
                                 "    for i in 5:\n"
                                 "      allocate T: f32[8]\n"
                                 "      for j in 8 vectorized:\n"
                                 "        if i * 8 + j < 36:\n"
                                 "          T[j] = select(h < 7, A[h * 36 + i * 8 + j], 0.0)\n"
                                 "      for j in 8 vectorized:\n"
                                 "        if i * 8 + j < 36:\n"
                                 "          B[h * 36 + i * 8 + j] = T[j] + 1.0\n")));
  const auto count = [&](const std::string& part) {
    int n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count("for i in 4:"), 1) << text;
  EXPECT_EQ(count("allocate T"), 1) << text;
  EXPECT_EQ(count("< 36"), 2) << text << "the last turn's";
  EXPECT_EQ(count("h < 7"), 2) << text;
}

// A recurrence in lanes: each of its steps would ask for the mask.
TEST(PeelTails, LoopsInLanesStandInBothParts) {
  const std::string text = to_text(
      peel_tails(lowered("lowered func f(A: f32[4000], B: f32[4000] output):\n"
                         "  for i in 7:\n"
                         "    for l in 8 vectorized:\n"
                         "      if i * 8 + l < 50:\n"
                         "        for j in 79:\n"
                         "          B[i * 640 + l * 80 + j + 1] = B[i * 640 + l * 80 + j] + A[i * 640 + l * 80 + j]\n"
                         "      for j in 80:\n"
                         "        if i * 8 + l < 50:\n"
                         "          B[i * 640 + l * 80 + j] = B[i * 640 + l * 80 + j] + 1.0\n")));
  EXPECT_NE(text.find("for i in 6:"), std::string::npos) << text;
  EXPECT_EQ(text.find("i * 8 + l < 50"), std::string::npos) << text;
  // A loop around others that are in no lanes stays.
  const Func plain = lowered(
      "lowered func f(A: f32[400], B: f32[400] output):\n"
      "  for i in 7:\n"
      "    for j in 8:\n"
      "      if i * 8 + j < 50:\n"
      "        B[i * 8 + j] = A[i * 8 + j] + 1.0\n");
  EXPECT_EQ(to_text(peel_tails(plain)).find("for i in 6:"), std::string::npos);
}

TEST(PeelTails, LeavesWhatGainsNothing) {
  // Few turns; two partial ones; none.
  for (const auto& [turns, extent] : {std::pair{3, 41}, std::pair{13, 150}, std::pair{5, 80}}) {
    const Func func = lowered(row(turns, extent));
    EXPECT_EQ(to_text(peel_tails(func)), to_text(func));
  }
}

TEST(FoldControl, MasksThatHoldForAllLanesOrForNoneGo) {
  const auto vectors = [](int64_t extent) {
    return to_text(fold_control(vectorize_loops(lowered(row(1, extent))->body)));
  };
  EXPECT_EQ(vectors(16).find(" if "), std::string::npos) << vectors(16);
  EXPECT_NE(vectors(9).find(" if "), std::string::npos) << vectors(9);
}

}  // namespace
}  // namespace fettle
