// What epilogues read, asked for ahead of the reduction.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

std::string with_requests(int64_t steps, int64_t row) {
  const std::string text = "lowered func f(A: f32[" + std::to_string(steps) + "], X: f32[" + std::to_string(2 * row) +
                           "], C: f32[" + std::to_string(2 * row) + R"(] output):
  allocate R: f32[32] @register
  for k in )" + std::to_string(steps) +
                           R"(:
    for r in 2 unrolled:
      for l in 16 vectorized:
        R[r * 16 + l] = R[r * 16 + l] + A[k]
  for r in 2 unrolled:
    for l in 16 vectorized:
      C[r * )" + std::to_string(row) +
                           " + l] = R[r * 16 + l] + X[r * " + std::to_string(row) + " + l]\n";
  const auto func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  Target target;
  target.caches = {{.size_bytes = 32 << 10}, {.size_bytes = 1 << 20}};
  return to_text(with(*func, [&](FuncNode& f) { f.body = prefetch_epilogues((*func)->body, target); }));
}

TEST(PrefetchEpilogues, OfLargeBuffersBehindLongReductions) {
  const std::string text = with_requests(256, 8192);
  const size_t asked = text.find("  for r in 2 unrolled:\n    prefetch.i32(&X[r * 8192])\n");
  ASSERT_NE(asked, std::string::npos) << text;
  EXPECT_LT(asked, text.find("for k in 256")) << text;
  EXPECT_EQ(text.find("&C"), std::string::npos) << text;
}

TEST(PrefetchEpilogues, NotOfWhatIsNearNorBehindShortReductions) {
  EXPECT_EQ(with_requests(256, 64).find("prefetch"), std::string::npos);
  EXPECT_EQ(with_requests(16, 8192).find("prefetch"), std::string::npos);
}

}  // namespace
}  // namespace fettle
