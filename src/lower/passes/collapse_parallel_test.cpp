#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

std::string collapsed(const std::string& loops) {
  const auto func = parse_func("lowered func f(A: f32[n * m * 4] output, n: i64 in 0..64, m: i64 in 0..64):\n" + loops);
  return func ? to_text(collapse_parallel(*func)) : func.error().to_string();
}

TEST(CollapseParallel, LoopsThatNestBecomeOne) {
  const std::string text = collapsed(
      "  for i in n parallel:\n"
      "    for j in m parallel:\n"
      "      for k in 4 parallel:\n"
      "        A[i * m * 4 + j * 4 + k] = 1.0\n");
  EXPECT_NE(text.find("for i_j_k in n * (m * 4) parallel:"), std::string::npos) << text;
  EXPECT_EQ(text.find("parallel"), text.rfind("parallel")) << text;
}

TEST(CollapseParallel, OthersStayAsTheyAre) {
  for (const char* loops : {"  for i in n parallel:\n"
                            "    for j in i parallel:\n"
                            "      A[i * m + j] = 1.0\n",
                            "  for i in n:\n"
                            "    for j in m parallel:\n"
                            "      A[i * m + j] = 1.0\n",
                            "  for i in n parallel:\n"
                            "    A[i * m] = 0.0\n"
                            "    for j in m parallel:\n"
                            "      A[i * m + j] = 1.0\n"})
    EXPECT_NE(collapsed(loops).find("for j in "), std::string::npos) << collapsed(loops);
}

}  // namespace
}  // namespace fettle
