#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/tile.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;
using testing::TestSchedule;

Target avx512(const char* more = "") {
  Target target = parse_target("x86-64-avx512").value();
  target.features += more;
  return target;
}

std::string lowered_text(const Func& func, const Target& target) {
  const auto lowered = lower(func, target);
  EXPECT_TRUE(lowered) << testing::error_text(lowered.error());
  return lowered ? to_text(lowered->kernel) : "";
}

// C = A B with u8 and i8, B packed for the intrinsic beforehand, tiles of 3 x 2 vectors in registers.
TestSchedule int8_gemm(const char* panels) {
  TestSchedule s = schedule_from(R"(
func gemm(A: u8[12, 16], B: i8[16, 64], C: i32[12, 64] output):
  for i in 12:
    for j in 64:
      for k in 16:
        block C(vi: spatial[12] = i, vj: spatial[64] = j, vk: reduce[16] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0i32
          C[vi, vj] = C[vi, vj] + i32(A[vi, vk]) * i32(B[vk, vj])
)");
  const BlockRef c = s.block("C");
  const auto pack = cache_read(s, {.block = c, .read_index = 1});
  IndexMap map;
  EXPECT_TRUE(from_arg(ArgValue{std::string(panels)}, map));
  EXPECT_OK(transform_layout(s, {.block = *pack, .index_map = map}));
  const auto back = cache_write(s, {.block = c, .scope = kScopeRegister});
  const auto i = split(s, {.loop = s.loop("i"), .factors = {kInfer, 3}});
  const auto j = split(s, {.loop = s.loop("j"), .factors = {kInfer, 2, 16}});
  const auto k = split(s, {.loop = s.loop("k"), .factors = {kInfer, 4}});
  EXPECT_OK(reorder(s, {.loops = {(*j)[0], (*i)[0], (*k)[0], (*i)[1], (*j)[1], (*j)[2], (*k)[1]}}));
  EXPECT_OK(unroll(s, {.loop = (*i)[1]}));
  EXPECT_OK(unroll(s, {.loop = (*j)[1]}));
  EXPECT_OK(vectorize(s, {.loop = (*j)[2]}));
  EXPECT_OK(reverse_compute_at(s, {.block = *back, .loop = (*i)[0]}));
  EXPECT_OK(decompose_reduction(s, {.block = c, .loop = (*k)[0]}));
  EXPECT_OK(tensorize(s, {.target = (*j)[2], .intrinsic = "vpdpbusd_512"}));
  return s;
}

TEST(TensorIntrinsics, AreInlinedIntoMicroKernels) {
  const TestSchedule s = int8_gemm("(k, n) -> (n // 32, k // 4, n % 32, k % 4)");
  EXPECT_SAME_RESULT(s);
  const auto lowered = lower(s.func(), avx512(",+avx512vnni"));
  ASSERT_OK(lowered);
  EXPECT_TRUE(testing::matches_golden(to_text(lowered->kernel)));
}

TEST(TensorIntrinsics, StayLoopsWhereTheTargetLacksThem) {
  const TestSchedule s = int8_gemm("(k, n) -> (n // 32, k // 4, n % 32, k % 4)");
  const std::string text = lowered_text(s.func(), avx512());
  EXPECT_EQ(text.find("llvm."), std::string::npos) << text;
  EXPECT_EQ(text.find("tensorize"), std::string::npos) << text;
  EXPECT_NE(text.find("i32x16("), std::string::npos) << text;  // as vectors
}

TEST(TensorIntrinsics, StayLoopsWhereMemoryLiesOtherwise) {
  // Rows of the tile are eight bytes apart.
  const TestSchedule s = int8_gemm("(k, n) -> (n // 32, k // 8, n % 32, k % 8)");
  EXPECT_SAME_RESULT(s);
  const std::string text = lowered_text(s.func(), avx512(",+avx512vnni"));
  EXPECT_EQ(text.find("llvm."), std::string::npos) << text;
}

// Rows a run-time stride apart; the interpreter can run the implementation.
TEST(TensorIntrinsics, TakeStrides) {
  TestSchedule s = schedule_from("for i in 8: for j in 200: for k in 100: C[i, j] += A[i, k] * B[k, j]");
  const auto loops = tile(s, {{s.loop("i"), s.loop("j"), s.loop("k")}, {2, 4, 4}});
  ASSERT_OK(loops);
  ASSERT_OK(decompose_reduction(s, {s.block("C"), (*loops)[2]}));
  ASSERT_OK(tensorize(s, {(*loops)[3], "scalar_matmul_f32"}));
  const auto lowered = lower(s.func(), avx512());
  ASSERT_OK(lowered);
  std::vector<std::vector<float>> data[2];
  for (int f = 0; f < 2; ++f) {
    for (const Param& param : s.original->params) {
      data[f].emplace_back(static_cast<size_t>(*as_int(param.buffer->shape[0]) * *as_int(param.buffer->shape[1])));
      for (size_t x = 0; x < data[f].back().size(); ++x)
        data[f].back()[x] = static_cast<float>((x * 7 + data[f].size()) % 11) - 5.0f;
    }
    std::vector<BufferArg> args;
    for (auto& d : data[f]) args.push_back({d.data(), static_cast<int64_t>(d.size() * sizeof(float))});
    if (f) {
      ASSERT_OK(interpret(lowered->kernel, args));
    } else {
      ASSERT_OK(interpret(s.original, args));
    }
  }
  EXPECT_EQ(data[0], data[1]);
  const std::string text = to_text(lowered->kernel);
  EXPECT_EQ(text.find("vectorized"), std::string::npos) << text;
  EXPECT_EQ(text.find("ramp"), std::string::npos) << text;  // scalar: not the loops as lanes
}

// A tile whose loops were fused afterwards is no intrinsic's any more, and its loop no lanes: several would add to one
// element.
TEST(TensorIntrinsics, AFusedTileStaysALoop) {
  TestSchedule s = schedule_from(R"(
func gemm(A: f32[6, 8], B: f32[8, 12], C: f32[6, 12] output):
  for i in 6:
    for j in 12:
      for k in 8:
        block C(vi: spatial[6] = i, vj: spatial[12] = j, vk: reduce[8] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
  const auto i = split(s, {.loop = s.loop("i"), .factors = {kInfer, 2}});
  const auto j = split(s, {.loop = s.loop("j"), .factors = {kInfer, 4}});
  const auto k = split(s, {.loop = s.loop("k"), .factors = {kInfer, 4}});
  EXPECT_OK(reorder(s, {.loops = {(*i)[0], (*j)[0], (*k)[0], (*i)[1], (*j)[1], (*k)[1]}}));
  EXPECT_OK(decompose_reduction(s, {.block = s.block("C"), .loop = (*k)[0]}));
  EXPECT_OK(tensorize(s, {.target = (*i)[1], .intrinsic = "scalar_matmul_f32"}));
  const auto loops = get_loops(s, {s.block("C")});
  EXPECT_OK(fuse(s, {{(*loops)[1], (*loops)[2]}}));
  const std::string text = lowered_text(s.func(), avx512());
  EXPECT_EQ(text.find("ramp"), std::string::npos) << text;
}

}  // namespace
}  // namespace fettle
