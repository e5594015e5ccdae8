#include "analysis/computes_once.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace fettle {
namespace {

bool once(const std::string& binding) {
  const auto func = parse_func(R"(
func relu(A: f32[30], B: f32[30] output):
  for i0 in 4:
    for i1 in 8:
      block B(v: spatial[30] = )" +
                               binding + R"():
        reads A[v]
        writes B[v]
        B[v] = max(A[v], 0.0)
)");
  EXPECT_TRUE(func) << func.error().to_string();
  return computes_once(*func);
}

TEST(ComputesOnce, TilesThatOverlapComputeTwice) {
  EXPECT_TRUE(once("i0 * 8 + i1"));
  EXPECT_FALSE(once("min(i0 * 8, 22) + i1"));
}

}  // namespace
}  // namespace fettle
