#include "measure/sampled.h"

#include <gtest/gtest.h>

#include "codegen/test_util.h"
#include "ir/interpret.h"
#include "measure/compare.h"
#include "measure/fill.h"

namespace fettle {
namespace {

using testing::parsed;

// A product, then relu, as one program; the product is what is heavy.
Func product(int m, int n, int k) {
  const std::string M = std::to_string(m), N = std::to_string(n), K = std::to_string(k);
  return parsed(
      "func product(A: f32[" + M + ", " + K + "], B: f32[" + K + ", " + N + "], C: f32[" + M + ", " + N +
      "] output):\n  alloc P: f32[" + M + ", " + N + "]\n  for i in " + M + ":\n    for j in " + N +
      ":\n      for k in " + K + ":\n        block P(vi: spatial[" + M + "] = i, vj: spatial[" + N +
      "] = j, vk: reduce[" + K +
      "] = k):\n          reads A[vi, vk], B[vk, vj]\n          writes P[vi, vj]\n          init:\n"
      "            P[vi, vj] = 0.0\n          P[vi, vj] = P[vi, vj] + A[vi, vk] * B[vk, vj]\n  for i in " +
      M + ":\n    for j in " + N + ":\n      block C(vi: spatial[" + M + "] = i, vj: spatial[" + N +
      "] = j):\n        reads P[vi, vj]\n        writes C[vi, vj]\n        C[vi, vj] = max(P[vi, vj], 0.0)\n");
}

struct Computed {
  std::vector<float> a, b, c;
};

Computed run(const Func& func, int m, int n, int k) {
  Computed r{std::vector<float>(m * k), std::vector<float>(k * n), std::vector<float>(m * n)};
  fill_random(r.a.data(), m * k, kF32, 3, 0);
  fill_random(r.b.data(), k * n, kF32, 3, 1);
  const BufferArg args[] = {{r.a.data(), static_cast<int64_t>(r.a.size()) * 4},
                            {r.b.data(), static_cast<int64_t>(r.b.size()) * 4},
                            {r.c.data(), static_cast<int64_t>(r.c.size()) * 4}};
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << done.error().to_string();
  return r;
}

std::span<const char> bytes(const std::vector<float>& v) {
  return {reinterpret_cast<const char*>(v.data()), v.size() * 4};
}

TEST(Sampled, ComputesTheEdgesAndSomeBetween) {
  constexpr int m = 61, n = 47, k = 20;
  const Func whole = product(m, n, k);
  EXPECT_EQ(count_instances(whole), m * n * k + m * n);
  const auto low = sampled_program(whole, 2e4, -700), high = sampled_program(whole, 2e4, 1000);
  ASSERT_TRUE(low && high) << low.error().to_string();
  EXPECT_LT(count_instances(*low), 2e4);
  const Computed all = run(whole, m, n, k), a = run(*low, m, n, k), b = run(*high, m, n, k);
  const std::vector<bool> known = equal_elements(bytes(a.c), bytes(b.c), kF32);
  const auto n_known = std::count(known.begin(), known.end(), true);
  EXPECT_GE(n_known, 144);
  EXPECT_LT(n_known, m * n / 2);
  for (const int i : {0, m - 1})
    for (const int j : {0, n - 1}) EXPECT_TRUE(known[i * n + j]) << i << ", " << j;
  // Every place in a tile of four rows and four columns.
  for (int place = 0; place < 16; ++place) {
    bool met = false;
    for (int i = place / 4; i < m; i += 4)
      for (int j = place % 4; j < n; j += 4) met |= known[i * n + j];
    EXPECT_TRUE(met) << place;
  }
  const int64_t shape[] = {m, n};
  EXPECT_FALSE(find_difference("C", shape, kF32, a.c.data(), all.c.data(), 0, known));
  EXPECT_TRUE(find_difference("C", shape, kF32, a.c.data(), all.c.data(), 0)) << "the others are unknown";
  // One wrong element of the sample is found.
  std::vector<float> wrong = all.c;
  wrong[m * n - 1] += 1;
  EXPECT_EQ(find_difference("C", shape, kF32, wrong.data(), a.c.data(), 1e-5, known)->substr(0, 9), "C[60, 46]");
}

TEST(Sampled, SmallProgramsStayWhole) {
  const Func whole = product(5, 6, 7);
  const auto sampled = sampled_program(whole, 1e6, 1000);
  ASSERT_TRUE(sampled);
  EXPECT_EQ(count_instances(*sampled), count_instances(whole));
}

TEST(Sampled, OneLongSumHasNoSample) {
  const Func sum = parsed(R"(
func sum(X: f32[3, 100000], Y: f32[3] output):
  for i in 3:
    for j in 100000:
      block Y(v: spatial[3] = i, r: reduce[100000] = j):
        reads X[v, r]
        writes Y[v]
        init:
          Y[v] = 0.0
        Y[v] = Y[v] + X[v, r]
)");
  const auto sampled = sampled_program(sum, 1e4, 1000);
  ASSERT_FALSE(sampled);
  EXPECT_EQ(sampled.error().code, ErrorCode::E301);
}

}  // namespace
}  // namespace fettle
