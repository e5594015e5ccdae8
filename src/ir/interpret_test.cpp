#include "ir/interpret.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include <gtest/gtest.h>

#include "ir/interpret_value.h"
#include "ir/text.h"

namespace fettle {
namespace {

template <class T>
BufferArg arg(std::vector<T>& v) {
  return {v.data(), static_cast<int64_t>(v.size() * sizeof(T))};
}

Func func_of(std::string_view text) {
  Result<Func> f = parse_func(text);
  EXPECT_TRUE(f.has_value()) << (f ? "" : f.error().to_string());
  return f ? *f : Func();
}

Func loops_of(std::string_view text) {
  Result<Func> f = parse_loops(text);
  EXPECT_TRUE(f.has_value()) << (f ? "" : f.error().to_string());
  return f ? *f : Func();
}

void run(const Func& f, std::vector<BufferArg> buffers, std::vector<int64_t> ints = {}) {
  ASSERT_TRUE(f);
  const Result<> status = interpret(f, buffers, ints);
  ASSERT_TRUE(status.has_value()) << status.error().to_string();
}

std::string error_of(const Func& f, std::vector<BufferArg> buffers, std::vector<int64_t> ints = {}) {
  const Result<> status = interpret(f, buffers, ints);
  return status ? "" : std::string(error_info(status.error().code).name) + " " + status.error().message;
}

TEST(Interpret, Matmul) {
  const Func f = loops_of("for i in 3:\n  for j in 5:\n    for k in 7: C[i, j] += A[i, k] * B[k, j]");
  std::vector<float> a(21), b(35), c(15, 99.0f);
  std::iota(a.begin(), a.end(), -5.0f);
  std::iota(b.begin(), b.end(), 1.0f);
  run(f, {arg(a), arg(b), arg(c)});
  for (int i = 0; i < 3; ++i)
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int k = 0; k < 7; ++k) sum += a[i * 7 + k] * b[k * 5 + j];
      EXPECT_EQ(c[i * 5 + j], sum);
    }
}

// The reduction is the outer loop and is split; the init runs once for each point, in its first step.
TEST(Interpret, InitRunsAtTheFirstStepOfTheReduction) {
  const Func f = func_of(R"(
      func f(A: f32[10, 4], S: f32[4] output):
        for k0 in 3:
          for i in 4:
            for k1 in 4:
              block S(vi: spatial[4] = i, vk: reduce[10] = k0 * 4 + k1) where k0 * 4 + k1 < 10:
                reads A[vk, vi]
                writes S[vi]
                init: S[vi] = 0.0
                S[vi] = S[vi] + A[vk, vi]
  )");
  std::vector<float> a(40), s(4, 5.0f);
  std::iota(a.begin(), a.end(), 0.0f);
  run(f, {arg(a), arg(s)});
  EXPECT_EQ(s, (std::vector<float>{180, 190, 200, 210}));
}

TEST(Interpret, UnwrittenMemoryIsNaN) {
  const Func f = func_of(R"(
      func f(B: f32[4] output):
        alloc T: f32[4]
        for i in 4:
          block B(v: spatial[4] = i):
            reads T[v]
            writes B[v]
            B[v] = T[v]
  )");
  std::vector<float> b(4, 1.0f);
  run(f, {arg(b)});
  for (float x : b) EXPECT_TRUE(std::isnan(x));
}

TEST(Interpret, ChecksEveryAccess) {
  std::vector<float> a(8), b(8);
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8]):\n  A[8] = 0.0"), {arg(a)}),
            "E103 A[8] is outside of its shape [8]");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8]):\n  A[-1] = 0.0"), {arg(a)}),
            "E103 A[-1] is outside of its shape [8]");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[2, 4]):\n  A[0, 4] = 0.0"), {arg(a)}),
            "E103 A[0, 4] is outside of its shape [2, 4]");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[16]):\n  A[8] = 0.0"), {arg(a)}),
            "E103 A[8] is outside of its shape [16]");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8]):\n  A[ramp(1, 1, 8)] = A[ramp(0, 1, 8)]"), {arg(a)}),
            "E103 A[8] is outside of its shape [8]");
  EXPECT_EQ(error_of(func_of("func f(A: f32[8]):\n  for i in 9:\n    block b(v: spatial[8] = i):\n      writes A[v]\n"
                             "      A[v] = 0.0"),
                     {arg(a)}),
            "E103 iterator v of block b is 8, outside of its extent 8");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8], n: i64):\n  A[8 // n] = 0.0"), {arg(a)}, {0}),
            "E104 an integer was divided by zero");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8]):\n  A[0] = mystery(A[1])"), {arg(a)}),
            "E104 the interpreter knows no function 'mystery' of 1 arguments on f32");
  EXPECT_EQ(error_of(func_of("lowered func f(A: f32[8]): A[0] = 0.0"), {arg(a), arg(b)}),
            "E104 f takes 1 buffers and 0 integers, not 2 and 0");
  EXPECT_EQ(error_of(func_of("lowered func f(n: i64):\n  allocate B: f32[n, n]\n  B[0] = 0.0"), {}, {int64_t{1} << 40}),
            "E104 the shape of buffer B is negative or too large");
}

TEST(Interpret, SelectsAndConnectivesLookAtOneSide) {
  const Func f = func_of(R"(
      lowered func f(A: f32[4], B: f32[6] output):
        for i in 6:
          B[i] = select(likely(1 <= i && i < 5), A[i - 1], 0.0)
        for i in 6:
          if i < 4 && A[i] == 2.0 || i == 5: B[i] = -1.0
  )");
  std::vector<float> a{1, 2, 3, 4}, b(6);
  run(f, {arg(a), arg(b)});
  EXPECT_EQ(b, (std::vector<float>{0, -1, 2, 3, 4, -1}));
}

TEST(Interpret, VectorsMasksAndShuffles) {
  const Func f = func_of(R"(
      lowered func f(A: f32[10], B: f32[16] output, n: i64):
        allocate acc: f32[8] @register
        acc[ramp(0, 1, 8)] = broadcast(1.0, 8)
        let mask = ramp(0, 1, 8) < broadcast(n, 8)
        acc[ramp(0, 1, 8)] = fma(A[ramp(5, 1, 8) if mask], broadcast(2.0, 8), acc[ramp(0, 1, 8)])
        B[ramp(0, 2, 8) if !mask] = acc[ramp(0, 1, 8)]
        B[ramp(1, 2, 8) if mask] = acc[ramp(0, 1, 8)]
        B[15] = shuffle([acc[ramp(0, 1, 8)], A[ramp(0, 1, 2)]], [9])
        let v = select(mask, acc[ramp(0, 1, 8)], broadcast(-7.0, 8))
        B[ramp(0, 1, 2)] = shuffle([v], [4, 5])
  )");
  std::vector<float> a(10), b(16, 50.0f);
  std::iota(a.begin(), a.end(), 0.0f);
  run(f, {arg(a), arg(b)}, {5});
  EXPECT_EQ(b, (std::vector<float>{19, -7, 50, 13, 50, 15, 50, 17, 50, 19, 1, 50, 1, 50, 1, 1}));
}

TEST(Interpret, FunctionsCallEachOtherOnSlices) {
  Result<IrModule> module = parse_module(R"(
      entry func main(A: f32[4, 4], B: f32[4, 4] output):
        for i in 2:
          block all(v: opaque[2] = i):
            reads A[v * 2, 0 +: 4]
            writes B[v * 2, 0 +: 4]
            call scale(&A[v * 2, 1], &B[v * 2, 1], 3, v)
      lowered func scale(X: f32[n], Y: f32[n] output, n: i64, m: i64):
        for i in n: Y[i] = X[i] * f32(m + 2)
  )");
  ASSERT_TRUE(module.has_value()) << module.error().to_string();
  std::vector<float> a(16, 1.0f), b(16, 0.0f);
  const Result<> status = interpret(*module, std::vector<BufferArg>{arg(a), arg(b)});
  ASSERT_TRUE(status.has_value()) << status.error().to_string();
  EXPECT_EQ(b, (std::vector<float>{0, 2, 2, 2, 0, 0, 0, 0, 0, 3, 3, 3, 0, 0, 0, 0}));
}

TEST(Interpret, StridesScansWhilesAndAsync) {
  const Func f = func_of(R"(
      func f(A: f32[3, 4] strides[8, 2], B: f32[12] output):
        for i in 12:
          block B(v: spatial[12] = i):
            reads A[v // 4, v % 4]
            writes B[v]
            B[v] = A[v // 4, v % 4]
        for t in 11:
          block run(v: scan[11] = t):
            reads B[v +: 2]
            writes B[v + 1]
            B[v + 1] = B[v] + B[v + 1]
  )");
  std::vector<float> a(24), b(12);
  std::iota(a.begin(), a.end(), 0.0f);
  run(f, {arg(a), arg(b)});
  float sum = 0;
  for (int i = 0; i < 12; ++i) {
    sum += static_cast<float>(i / 4 * 8 + i % 4 * 2);
    EXPECT_EQ(b[static_cast<size_t>(i)], sum);
  }
  const Func g = func_of(R"(
      lowered func g(N: i32[1], B: i64[4] output):
        B[0] = 0
        while N[0] > 0i32:
          N[0] = N[0] // 2i32
          B[0] = B[0] + 1
        issue "dma": B[1] = 5
        wait "dma" pending 0: B[2] = B[1] + 1
        barrier()
        B[3] = -7 // 2 * 100 + -7 % 2
  )");
  std::vector<int32_t> n{100};
  std::vector<int64_t> out(4);
  run(g, {arg(n), arg(out)});
  EXPECT_EQ(out, (std::vector<int64_t>{7, 5, 6, -399}));
}

TEST(Interpret, IntegersWrapAndCastsSaturate) {
  const Func f = func_of(R"(
      lowered func f(A: f32[4], X: i8[6] output, Y: u8[6] output, Z: i32[4] output, W: u64[3] output):
        X[0] = 100i8 + 100i8
        X[1] = i8(300)
        X[2] = i8(A[0])
        X[3] = i8(A[1])
        X[4] = i8(A[2])
        X[5] = abs(X[0]) << 1i8
        Y[0] = 3u8 - 5u8
        Y[1] = u8(A[0])
        Y[2] = u8(A[1])
        Y[3] = u8(A[3])
        Y[4] = max(200u8, 100u8) >> 3u8
        Y[5] = 200u8 // 7u8
        Z[0] = i32(X[0]) * i32(Y[0])
        Z[1] = -7i32 // 2i32
        Z[2] = -7i32 % 2i32
        Z[3] = -8i32 >> 1i32
        W[0] = 0u64 - 1u64
        W[1] = max(W[0], 1u64)
        W[2] = W[0] // 2u64
  )");
  std::vector<float> a{1000, -1000, std::nanf(""), 3.99f};
  std::vector<int8_t> x(6);
  std::vector<uint8_t> y(6);
  std::vector<int32_t> z(4);
  std::vector<uint64_t> w(3);
  run(f, {arg(a), arg(x), arg(y), arg(z), arg(w)});
  EXPECT_EQ(x, (std::vector<int8_t>{-56, 44, 127, -128, 0, 112}));
  EXPECT_EQ(y, (std::vector<uint8_t>{254, 255, 0, 3, 25, 28}));
  EXPECT_EQ(z, (std::vector<int32_t>{-56 * 254, -4, 1, -4}));
  EXPECT_EQ(w, (std::vector<uint64_t>{UINT64_MAX, UINT64_MAX, UINT64_MAX / 2}));
}

TEST(Interpret, MinimumAndMaximumPassNaNOn) {
  const Func f = func_of(R"(
      lowered func f(A: f32[2], B: f32[8] output):
        B[0] = max(A[0], A[1])
        B[1] = max(A[1], A[0])
        B[2] = min(A[0], A[1])
        B[3] = min(A[1], A[0])
        B[4] = max(A[1], 0.0)
        B[5] = min(7.0, A[1])
        B[6] = max(A[0], 2.0)
        B[7] = min(A[0], 2.0)
  )");
  std::vector<float> a{5, NAN}, b(8);
  run(f, {arg(a), arg(b)});
  for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(b[i])) << i;
  EXPECT_EQ(b[6], 5);
  EXPECT_EQ(b[7], 2);
}

TEST(Interpret, AnOrderedMaximumDropsNaN) {
  const Func f = func_of(R"(
      lowered func f(A: f32[4], B: f32[8] output):
        B[0] = ordered_max(A[1], A[0])
        B[1] = ordered_max(A[0], A[1])
        B[2] = ordered_max(A[1], A[1])
        B[3] = ordered_max(A[2], A[0])
        B[4] = ordered_max(A[0], A[2])
        B[5] = ordered_max(A[1], -inf)
        B[6] = ordered_max(0.0, A[3])
        B[7] = ordered_max(A[3], 0.0)
  )");
  std::vector<float> a{5, NAN, 7, -0.0f}, b(8);
  run(f, {arg(a), arg(b)});
  EXPECT_EQ(b[0], 5);
  EXPECT_TRUE(std::isnan(b[1]));  // the second operand, where either is NaN
  EXPECT_TRUE(std::isnan(b[2]));
  EXPECT_EQ(b[3], 7);
  EXPECT_EQ(b[4], 7);
  EXPECT_EQ(b[5], -INFINITY);
  EXPECT_TRUE(std::signbit(b[6]));  // and of equal ones
  EXPECT_FALSE(std::signbit(b[7]));
}

TEST(Interpret, PowersOfIntegersAreExact) {
  const Func f = func_of(R"(
      lowered func f(A: i32[12], B: i32[12], C: i32[12] output, D: u8[4] output, E: i64[2] output):
        for i in 12: C[i] = pow(A[i], B[i])
        D[0] = pow(9u8, 3u8)
        D[1] = pow(0u8, 0u8)
        D[2] = pow(3u8, 255u8)
        D[3] = pow(255u8, 2u8)
        E[0] = pow(i64(A[0]), 17)
        E[1] = pow(-3, 41)
  )");
  std::vector<int32_t> a{9, 0, 0, 0, 1, -1, -1, 2, -2, 10, 3, -7}, b{3, 0, 5, -1, -9, -9, -8, -1, 31, 10, 1000001, 3},
      c(12);
  std::vector<uint8_t> d(4);
  std::vector<int64_t> e(2);
  run(f, {arg(a), arg(b), arg(c), arg(d), arg(e)});
  uint32_t wrapped = 1;
  for (int i = 0; i < 1000001; ++i) wrapped *= 3;
  const std::vector<int32_t> wanted{729, 1, 0, 0, 1, -1, 1, 0, INT32_MIN, 1410065408, static_cast<int32_t>(wrapped),
                                    -343};
  EXPECT_EQ(c, wanted);
  uint8_t of_three = 1;
  for (int i = 0; i < 255; ++i) of_three = static_cast<uint8_t>(of_three * 3);
  EXPECT_EQ(d, (std::vector<uint8_t>{729 % 256, 1, of_three, 1}));
  EXPECT_EQ(e[0], 16677181699666569);
  uint64_t of_minus_three = 1;
  for (int i = 0; i < 41; ++i) of_minus_three *= static_cast<uint64_t>(-3);
  EXPECT_EQ(e[1], static_cast<int64_t>(of_minus_three));
}

TEST(Interpret, MathInTheOperandsPrecision) {
  const Func f = func_of(R"(
      lowered func f(A: f32[2], B: f32[16] output, C: f64[2] output):
        B[0] = exp(A[0])
        B[1] = log(A[0])
        B[2] = sqrt(A[0])
        B[3] = rsqrt(A[0])
        B[4] = tanh(A[0])
        B[5] = erf(A[0])
        B[6] = sigmoid(A[0])
        B[7] = pow(A[0], A[1])
        B[8] = round(2.5) + round(3.5) * 10.0
        B[9] = floor(-1.5) + ceil(-1.5) * 10.0 + trunc(-1.5) * 100.0
        B[10] = fma(A[0], A[0], -(A[0] * A[0]))
        B[11] = select(isnan(A[0] - A[0]), 1.0, abs(-3.0))
        B[12] = A[0] + 1e-9
        B[13] = sin(A[0])
        B[14] = cos(A[0])
        B[15] = 16777216.0 + 1.0
        C[0] = exp(f64(A[0]))
        C[1] = f64(A[0]) + 1e-9f64
  )");
  std::vector<float> a{1.3f, 2.7f}, b(16);
  std::vector<double> c(2);
  run(f, {arg(a), arg(b), arg(c)});
  const double x = 1.3f;
  const auto near = [](float value, double exact) { EXPECT_FLOAT_EQ(value, static_cast<float>(exact)); };
  near(b[0], std::exp(x));
  near(b[1], std::log(x));
  near(b[2], std::sqrt(x));
  near(b[3], 1 / std::sqrt(x));
  near(b[4], std::tanh(x));
  near(b[5], std::erf(x));
  near(b[6], 1 / (1 + std::exp(-x)));
  near(b[7], std::pow(x, static_cast<double>(2.7f)));
  EXPECT_EQ(b[8], 2 + 40);
  EXPECT_EQ(b[9], -2 - 10 - 100);
  EXPECT_EQ(b[10], std::fma(1.3f, 1.3f, -(1.3f * 1.3f)));
  EXPECT_NE(b[10], 0.0f);
  EXPECT_EQ(b[11], 3.0f);
  EXPECT_EQ(b[12], 1.3f);
  near(b[13], std::sin(x));
  near(b[14], std::cos(x));
  EXPECT_EQ(b[15], 16777216.0f);
  EXPECT_EQ(c[0], std::exp(x));
  EXPECT_EQ(c[1], x + 1e-9);
}

TEST(Interpret, SmallFloats) {
  using interp::decode_small;
  using interp::encode_small;
  // Every finite value of 16 bits survives.
  for (DType type : {kF16, kBF16})
    for (int bits = 0; bits < 65536; ++bits) {
      const double value = decode_small(static_cast<uint16_t>(bits), type);
      if (!std::isnan(value)) {
        EXPECT_EQ(encode_small(value, type), bits);
      }
    }
  EXPECT_EQ(encode_small(1.0, kF16), 0x3c00);
  EXPECT_EQ(encode_small(65519.0, kF16), 0x7bff);
  EXPECT_EQ(encode_small(65520.0, kF16), 0x7c00);
  EXPECT_EQ(encode_small(1.0 + 0x1p-11, kF16), 0x3c00);  // half to even
  EXPECT_EQ(encode_small(1.0 + 3 * 0x1p-11, kF16), 0x3c02);
  EXPECT_EQ(encode_small(0x1p-25, kF16), 0);
  EXPECT_EQ(encode_small(1.0, kBF16), 0x3f80);
  EXPECT_EQ(encode_small(1.0 + 0x1p-8, kBF16), 0x3f80);
  EXPECT_EQ(encode_small(1.0 + 3 * 0x1p-8, kBF16), 0x3f82);
  EXPECT_TRUE(std::isnan(decode_small(encode_small(std::nan(""), kBF16), kBF16)));
  EXPECT_TRUE(std::isnan(decode_small(encode_small(std::nan(""), kF16), kF16)));

  const Func f = func_of(R"(
      lowered func f(A: f16[2], B: bf16[2], C: f32[4] output):
        C[0] = f32(A[0] + A[1])
        C[1] = f32(B[0] * B[1])
        C[2] = f32(f16(100000.0))
        C[3] = f32(bf16(1.005))
  )");
  std::vector<uint16_t> a{encode_small(2048, kF16), encode_small(1, kF16)};
  std::vector<uint16_t> b{encode_small(1.0078125, kBF16), encode_small(1.0078125, kBF16)};
  std::vector<float> c(4);
  run(f, {arg(a), arg(b), arg(c)});
  EXPECT_EQ(c, (std::vector<float>{2048, 1.015625f, std::numeric_limits<float>::infinity(), 1.0078125f}));
}

}  // namespace
}  // namespace fettle
