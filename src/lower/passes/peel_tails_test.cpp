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
