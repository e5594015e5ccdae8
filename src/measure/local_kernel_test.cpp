#include "measure/local_kernel.h"

#include <gtest/gtest.h>

#include <cmath>

#include "codegen/test_util.h"

namespace fettle {
namespace {

using testing::parsed;

constexpr std::string_view kMatmul = R"(
func matmul(A: f32[12, 20], B: f32[20, 33] constant, C: f32[12, 33] output):
  for i in 12:
    for j in 33:
      for k in 20:
        block C(vi: spatial[12] = i, vj: spatial[33] = j, vk: reduce[20] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)";

// The same, with B packed into panels of 16 columns; pack depends on a constant alone.
constexpr std::string_view kPacked = R"(
func matmul(A: f32[12, 20], B: f32[20, 33] constant, C: f32[12, 33] output):
  alloc P: f32[3, 20, 16]
  for p in 3:
    for k in 20:
      for l in 16:
        block P(vp: spatial[3] = p, vk: spatial[20] = k, vl: spatial[16] = l):
          reads B[vk, vp * 16 + vl]
          writes P[vp, vk, vl]
          P[vp, vk, vl] = select(vp * 16 + vl < 33, B[vk, vp * 16 + vl], 0.0)
  for i in 12:
    for j in 33:
      for k in 20:
        block C(vi: spatial[12] = i, vj: spatial[33] = j, vk: reduce[20] = k):
          reads A[vi, vk], P[vj // 16, vk, vj % 16]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * P[vj // 16, vk, vj % 16]
)";

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, int m, int n, int k) {
  std::vector<float> c(static_cast<size_t>(m * n));
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double sum = 0;
      for (int l = 0; l < k; ++l) sum += double(a[static_cast<size_t>(i * k + l)]) * b[static_cast<size_t>(l * n + j)];
      c[static_cast<size_t>(i * n + j)] = static_cast<float>(sum);
    }
  return c;
}

TEST(LocalKernel, RunsOnItsSeededInputs) {
  for (const bool plain : {true, false}) {
    auto kernel = LocalKernel::build(parsed(kMatmul), detect_host(1), {.plain = plain});
    ASSERT_TRUE(kernel) << kernel.error().to_string();
    ASSERT_TRUE(kernel->run());
    EXPECT_EQ(kernel->logical<float>(2), product(kernel->logical<float>(0), kernel->logical<float>(1), 12, 33, 20));
  }
}

TEST(LocalKernel, RunsOnTheCallersMemory) {
  auto kernel = LocalKernel::build(parsed(kMatmul), detect_host(1));
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  for (int p = 0; p < 3; ++p) EXPECT_TRUE(kernel->in_callers_order(p));
  alignas(64) float a[12 * 20], c[12 * 33];
  std::fill_n(a, 12 * 20, 2.0f);
  std::fill_n(c, 12 * 33, -1.0f);
  void* const given[] = {a, nullptr, c};  // B is the kernel's own
  ASSERT_TRUE(kernel->run_on(given));
  EXPECT_EQ(std::vector<float>(c, c + 12 * 33),
            product(std::vector<float>(a, a + 12 * 20), kernel->logical<float>(1), 12, 33, 20));
}

TEST(LocalKernel, RunsThePrologueAgainWhenAConstantChanges) {
  auto kernel = LocalKernel::build(parsed(kPacked), detect_host(1));
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  ASSERT_TRUE(kernel->run());
  EXPECT_EQ(kernel->logical<float>(2), product(kernel->logical<float>(0), kernel->logical<float>(1), 12, 33, 20));

  std::vector<float> b(20 * 33);
  for (size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 7) - 3;
  const std::vector<float> before = kernel->logical<float>(2);
  kernel->set_logical<float>(1, b);
  ASSERT_TRUE(kernel->run());
  EXPECT_EQ(kernel->logical<float>(2), before) << "the packed copy is still that of the old constant";
  ASSERT_TRUE(kernel->run_prologue());
  ASSERT_TRUE(kernel->run());
  EXPECT_EQ(kernel->logical<float>(2), product(kernel->logical<float>(0), b, 12, 33, 20));
}

TEST(LocalKernel, SharedMemoryIsTheSameForAll) {
  const auto memory = std::make_shared<SharedMemory>(false);
  auto plain = LocalKernel::build(parsed(kMatmul), detect_host(1), {.memory = memory});
  auto packed = LocalKernel::build(parsed(kPacked), detect_host(1), {.memory = memory});
  auto alone = LocalKernel::build(parsed(kPacked), detect_host(1));
  ASSERT_TRUE(plain);
  ASSERT_TRUE(packed);
  ASSERT_TRUE(alone);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(plain->physical(i), packed->physical(i));
  EXPECT_NE(alone->physical(0), packed->physical(0));
  ASSERT_TRUE(plain->run());
  const std::vector<float> by_plain = packed->logical<float>(2);
  ASSERT_TRUE(alone->run());
  const std::vector<float> expected = alone->logical<float>(2);
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(by_plain[i], expected[i], 1e-4);
  // What is larger than all before gets memory of its own.
  EXPECT_EQ(memory->block(0, 1000).value(), plain->physical(0));
  EXPECT_NE(memory->block(0, 16 << 20).value(), plain->physical(0));
}

TEST(LocalKernel, SeedsDecideTheInputs) {
  auto one = LocalKernel::build(parsed(kMatmul), detect_host(1), {.seed = 1});
  auto same = LocalKernel::build(parsed(kMatmul), detect_host(1), {.seed = 1});
  auto other = LocalKernel::build(parsed(kMatmul), detect_host(1), {.seed = 2});
  ASSERT_TRUE(one && same && other);
  EXPECT_EQ(one->logical<float>(0), same->logical<float>(0));
  EXPECT_NE(one->logical<float>(0), other->logical<float>(0));
  EXPECT_NE(one->logical<float>(0), one->logical<float>(1));
}

TEST(LocalKernel, MultiThreadedEqualsSingle) {
  Func func = parsed(R"(
func twice(A: f32[64, 50], B: f32[64, 50] output):
  for i in 64 parallel:
    for j in 50:
      block B(vi: spatial[64] = i, vj: spatial[50] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] * 2.0
)");
  auto kernel = LocalKernel::build(func, detect_host(2), {.threads = 2});
  ASSERT_TRUE(kernel) << kernel.error().to_string();
  ASSERT_TRUE(kernel->run());
  std::vector<float> expected = kernel->logical<float>(0);
  for (float& x : expected) x *= 2;
  EXPECT_EQ(kernel->logical<float>(1), expected);
}

}  // namespace
}  // namespace fettle
