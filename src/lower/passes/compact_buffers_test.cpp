#include "lower/lower.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/rolling_buffer.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

// Runs the program before all steps and the lowered one on the same small integers.
void expect_same(const Func& before, const IrModule& lowered) {
  std::vector<std::vector<float>> args[2];
  for (int f = 0; f < 2; ++f) {
    RandomStream stream{3, 0};
    for (const Param& param : before->params) {
      int64_t elements = 1;
      for (const Expr& extent : param.buffer->shape) elements *= *as_int(extent);
      auto& arg = args[f].emplace_back(static_cast<size_t>(elements), -7.0f);
      if (param.kind != ParamKind::kOutput)
        for (float& x : arg) x = static_cast<float>(stream.below(9)) - 4.0f;
    }
  }
  const auto views = [](std::vector<std::vector<float>>& list) {
    std::vector<BufferArg> made;
    for (auto& arg : list) made.push_back({arg.data(), static_cast<int64_t>(arg.size() * sizeof(float))});
    return made;
  };
  ASSERT_OK(interpret(before, views(args[0])));
  ASSERT_OK(interpret(lowered, views(args[1])));
  EXPECT_EQ(args[0], args[1]) << to_text(lowered);
}

// A buffer that keeps rows from one iteration to the next stays outside of the loop, circular.
TEST(CompactBuffers, ARollingBufferOutlivesTheIteration) {
  for (const bool nested : {false, true}) {
    auto s = testing::schedule_from(nested ? R"(
func stencil(A: f32[2, 18, 32], C: f32[2, 16, 32] output):
  alloc P: f32[2, 18, 32]
  for m in 2:
    for h in 18:
      for w in 32:
        block P(vm: spatial[2] = m, vh: spatial[18] = h, vw: spatial[32] = w):
          reads A[vm, vh, vw]
          writes P[vm, vh, vw]
          P[vm, vh, vw] = A[vm, vh, vw] * 2.0
  for n in 2:
    for y in 16:
      for x in 32:
        block C(vn: spatial[2] = n, vy: spatial[16] = y, vx: spatial[32] = x):
          reads P[vn, vy +: 3, vx]
          writes C[vn, vy, vx]
          C[vn, vy, vx] = P[vn, vy, vx] + P[vn, vy + 1, vx] * P[vn, vy + 2, vx]
)"
                                           : R"(
func stencil(A: f32[18, 32], C: f32[16, 32] output):
  alloc P: f32[18, 32]
  for h in 18:
    for w in 32:
      block P(vh: spatial[18] = h, vw: spatial[32] = w):
        reads A[vh, vw]
        writes P[vh, vw]
        P[vh, vw] = A[vh, vw] * 2.0
  for y in 16:
    for x in 32:
      block C(vy: spatial[16] = y, vx: spatial[32] = x):
        reads P[vy +: 3, vx]
        writes C[vy, vx]
        C[vy, vx] = P[vy, vx] + P[vy + 1, vx] * P[vy + 2, vx]
)");
    const auto y = split(s, {s.loop("y"), {kInfer, 4}});
    ASSERT_OK(y);
    const BlockRef p = s.block("P");
    ASSERT_OK(compute_at(s, {p, (*y)[0]}));
    ASSERT_OK(rolling_buffer(s, {p}));
    const auto columns = split(s, {s.loop("x"), {kInfer, 16}});
    ASSERT_OK(columns);
    ASSERT_OK(vectorize(s, {(*columns)[1]}));
    const auto lowered = lower(s.func(), parse_target("x86-64-avx512").value());
    ASSERT_OK(lowered);
    const std::string text = to_text(lowered->kernel);
    EXPECT_NE(text.find("allocate P: f32[192]"), std::string::npos) << text;  // 6 rows of 32
    EXPECT_LT(text.find("allocate P"), text.find("for y_0")) << text;
    expect_same(s.original, lowered->kernel);
  }
}

}  // namespace
}  // namespace fettle
