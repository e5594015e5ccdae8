#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

/// Keys in blocks of 16, and in each block in tiles of 4 that a loop walks through.
std::string dispatched(const std::string& keys) {
  const Result<Func> func = parse_func("lowered func f(A: f32[" + keys + ", 8], C: f32[" + keys +
                                       ", 8] output):\n"
                                       "  for b in (" +
                                       keys +
                                       " + 15) // 16:\n"
                                       "    allocate R: f32[4, 8] @register\n"
                                       "    for t in 4:\n"
                                       "      for i in 4 unrolled:\n"
                                       "        if b * 16 + t * 4 + i < " +
                                       keys +
                                       ":\n"
                                       "          for j in 8 vectorized:\n"
                                       "            R[i, j] = A[b * 16 + t * 4 + i, j] * 2.0\n"
                                       "      for i in 4 unrolled:\n"
                                       "        if b * 16 + t * 4 + i < " +
                                       keys +
                                       ":\n"
                                       "          for j in 8 vectorized:\n"
                                       "            C[b * 16 + t * 4 + i, j] = R[i, j]\n");
  EXPECT_TRUE(func) << (func ? "" : func.error().to_string());
  return func ? to_text(dispatch_micro_kernels(*func, true)) : "";
}

// The last block alone asks in each turn which of its keys there are.
TEST(DispatchMicroKernels, WholeBlocksDoNotAskForTheirEnd) {
  const std::string text = dispatched("77");
  EXPECT_EQ(count(text, "allocate R"), 2) << text;
  EXPECT_EQ(count(text, "if b < 4:"), 1) << text;
  EXPECT_EQ(count(text, "if t * 4 + i < 13:"), 2) << text;
}

TEST(DispatchMicroKernels, BlocksThatDivideAreOneKernel) {
  const std::string text = dispatched("80");
  EXPECT_EQ(count(text, "allocate R"), 1) << text;
  EXPECT_EQ(count(text, "if "), 0) << text;
}

}  // namespace
}  // namespace fettle
