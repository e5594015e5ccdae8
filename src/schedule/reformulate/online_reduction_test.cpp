#include "schedule/reformulate/online_reduction.h"

#include <cmath>

#include "schedule/primitives/reformulate.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// A softmax of rows; the sum reads `added`, the result is `result`.
std::string softmax(const std::string& added = "E[vs, vt]", const std::string& result = "E[vo, vp] / S[vo]") {
  const auto reads = [](const std::string& value, std::vector<std::string> regions) {
    std::string list;
    for (const std::string& region : regions)
      if (value.find(region.substr(0, 2)) != std::string::npos) list += (list.empty() ? "" : ", ") + region;
    return list;
  };
  return R"(
func softmax(A: f32[3, 7], B: f32[3, 7] output):
  alloc M: f32[3]
  alloc E: f32[3, 7]
  alloc S: f32[3]
  for i in 3:
    for k in 7:
      block M(vi: spatial[3] = i, vk: reduce[7] = k):
        reads A[vi, vk]
        writes M[vi]
        init:
          M[vi] = -inf
        M[vi] = max(M[vi], A[vi, vk])
  for e in 3:
    for f in 7:
      block E(ve: spatial[3] = e, vf: spatial[7] = f):
        reads A[ve, vf], M[ve]
        writes E[ve, vf]
        E[ve, vf] = exp(A[ve, vf] - M[ve])
  for s in 3:
    for t in 7:
      block S(vs: spatial[3] = s, vt: reduce[7] = t):
        reads )" +
         reads(added, {"E[0 +: 3, 0 +: 7]", "A[0 +: 3, 0 +: 7]", "M[0 +: 3]"}) + R"(
        writes S[vs]
        init:
          S[vs] = 0.0
        S[vs] = S[vs] + )" +
         added + R"(
  for o in 3:
    for p in 7:
      block B(vo: spatial[3] = o, vp: spatial[7] = p):
        reads )" +
         reads(result, {"E[vo, vp]", "S[vo]", "A[vo, vp]", "M[vo]"}) + R"(
        writes B[vo, vp]
        B[vo, vp] = )" +
         result + "\n";
}

std::vector<float> run(const Func& func, std::vector<float> input) {
  std::vector<float> output(21, -1.0f);
  std::vector<BufferArg> args = {{input.data(), 84}, {output.data(), 84}};
  const auto done = interpret(func, args);
  EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
  return output;
}

// Within the stated bound: 4 * 7 units of the sum, and those of the division.
void expect_close(const Func& before, const Func& after, const std::vector<float>& input) {
  const std::vector<float> x = run(before, input), y = run(after, input);
  for (size_t i = 0; i < x.size(); ++i) EXPECT_NEAR(x[i], y[i], 32 * 1.2e-7f * std::abs(x[i])) << i;
}

std::vector<float> some_input() {
  std::vector<float> input(21);
  for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<float>((i * 37) % 23) * 0.7f - 6.0f;
  return input;
}

TEST(OnlineReduction, SoftmaxInOnePass) {
  auto s = schedule_from(softmax());
  auto blocks = reformulate(s, {s.block("S"), "online_reduction", {}});
  ASSERT_OK(blocks);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_NE(find_block(s.func()->body, "E"), nullptr);  // the result reads it
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, WhatOnlyTheSumReadGoes) {
  auto s = schedule_from(softmax("E[vs, vt]", "exp(A[vo, vp] - M[vo]) / S[vo]"));
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_EQ(find_block(s.func()->body, "E"), nullptr);
  EXPECT_EQ(s.func().root().allocations.size(), 2u);
  EXPECT_GOLDEN(s.func());
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, TheExponentialMayStandInTheSum) {
  auto s = schedule_from(softmax("exp(A[vs, vt] - M[vs])"));
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_REPLAYS(s);
  expect_close(s.original, s.func(), some_input());
}

TEST(OnlineReduction, MaskedElementsAreNothing) {
  auto s = schedule_from(softmax());
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  std::vector<float> input = some_input();
  for (size_t i : {0, 1, 6, 9, 20}) input[i] = -INFINITY;
  expect_close(s.original, s.func(), input);
}

TEST(OnlineReduction, StatesItsBound) {
  auto s = schedule_from(softmax());
  ASSERT_OK(reformulate(s, {s.block("S"), "online_reduction", {}}));
  EXPECT_EQ(std::get<double>(*s.func()->annotations.find("error_bound")), 28.0);
}

TEST(OnlineReduction, E228WhereThePatternDoesNotFit) {
  for (const char* added : {"A[vs, vt]", "exp(A[vs, vt])", "exp(A[vs, 6 - vt] - M[vs])", "exp(M[vs] - A[vs, vt])",
                            "exp(A[vs, vt] - M[2 - vs])"}) {
    auto s = schedule_from(softmax(added));
    EXPECT_ERROR(reformulate(s, {s.block("S"), "online_reduction", {}}), E228);
  }
  auto s = schedule_from(softmax());
  EXPECT_ERROR(reformulate(s, {s.block("M"), "online_reduction", {}}), E228);
  EXPECT_ERROR(reformulate(s, {s.block("S"), "online_reduction", {1}}), E228);
}

}  // namespace
}  // namespace fettle
