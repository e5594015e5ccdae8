#include <cmath>
#include <functional>
#include <numeric>

#include <gtest/gtest.h>

#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/text.h"
#include "te/create_func.h"
#include "te/make_func.h"

namespace fettle {
namespace {

using te::compute;
using te::placeholder;
using te::reduce_axis;
using te::ReduceAxis;
using te::Tensor;

template <class T>
BufferArg arg(std::vector<T>& v) {
  return {v.data(), static_cast<int64_t>(v.size() * sizeof(T))};
}

void run(const Func& f, std::vector<BufferArg> buffers, std::vector<int64_t> ints = {}) {
  const Result<> status = interpret(f, buffers, ints);
  ASSERT_TRUE(status.has_value()) << status.error().to_string() << "\n" << to_text(f);
}

// Prints, and parses back to the same program.
std::string text_of(const Func& f) {
  const std::string text = to_text(f);
  Result<Func> back = parse_func(text);
  EXPECT_TRUE(back.has_value()) << (back ? "" : back.error().to_string()) << "\n" << text;
  if (back) {
    EXPECT_TRUE(structural_equal(f, *back));
  }
  return text;
}

std::vector<float> ramp_of(size_t n, float scale = 0.25f) {
  std::vector<float> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = scale * static_cast<float>(static_cast<int>(i * 7 % 23) - 11);
  return v;
}

TEST(Te, Matmul) {
  const Tensor a = placeholder({4, 6}, kF32, "A"), b = placeholder({6, 5}, kF32, "B");
  const ReduceAxis k = reduce_axis(6, "k");
  const Tensor c =
      compute({4, 5}, [&](const auto& i) { return te::sum(a(i[0], k) * b(k, i[1]), {k}); }, "C", {"i", "j"});
  const Func f = te::create_func(
      "matmul", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .free_layout = {false, true}});
  EXPECT_EQ(text_of(f), R"(func matmul(A: f32[4, 6], B: f32[6, 5] constant free_layout, C: f32[4, 5] output):
  for i in 4:
    for j in 5:
      for k in 6:
        block C(vi: spatial[4] = i, vj: spatial[5] = j, vk: reduce[6] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)");
  std::vector<float> x = ramp_of(24), y = ramp_of(30), z(20);
  run(f, {arg(x), arg(y), arg(z)});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 5; ++j) {
      float sum = 0;
      for (int r = 0; r < 6; ++r) sum += x[i * 6 + r] * y[r * 5 + j];
      EXPECT_EQ(z[i * 5 + j], sum);
    }
}

TEST(Te, ConvolutionWithPadding) {
  const Tensor x = placeholder({1, 2, 5, 5}, kF32, "X"), w = placeholder({3, 2, 3, 3}, kF32, "W");
  const Tensor padded = te::pad(x, {0, 0, 1, 1}, {0, 0, 1, 1}, float_imm(0), "pad");
  const ReduceAxis c = reduce_axis(2, "c"), kh = reduce_axis(3, "kh"), kw = reduce_axis(3, "kw");
  const Tensor y =
      compute({1, 3, 3, 3},
              [&](const auto& i) {
                return te::sum(padded(i[0], c, i[2] * 2 + kh, i[3] * 2 + kw) * w(i[1], c, kh, kw), {c, kh, kw});
              },
              "Y", {"n", "o", "h", "w"});
  const Func f = te::create_func("conv2d", {x, w}, {y});
  EXPECT_EQ(text_of(f), R"(func conv2d(X: f32[1, 2, 5, 5], W: f32[3, 2, 3, 3], Y: f32[1, 3, 3, 3] output):
  alloc pad: f32[1, 2, 7, 7]
  for i0 in 1:
    for i1 in 2:
      for i2 in 7:
        for i3 in 7:
          block pad(vi0: spatial[1] = i0, vi1: spatial[2] = i1, vi2: spatial[7] = i2, vi3: spatial[7] = i3):
            reads X[vi0, vi1, vi2 - 1, vi3 - 1]
            writes pad[vi0, vi1, vi2, vi3]
            pad[vi0, vi1, vi2, vi3] = select(likely(1 <= vi2 && vi2 < 6 && 1 <= vi3 && vi3 < 6), X[vi0, vi1, vi2 - 1, vi3 - 1], 0.0)
  for n in 1:
    for o in 3:
      for h in 3:
        for w in 3:
          for c in 2:
            for kh in 3:
              for kw in 3:
                block Y(vn: spatial[1] = n, vo: spatial[3] = o, vh: spatial[3] = h, vw: spatial[3] = w, vc: reduce[2] = c, vkh: reduce[3] = kh, vkw: reduce[3] = kw):
                  reads pad[vn, vc, vh * 2 + vkh, vw * 2 + vkw], W[vo, vc, vkh, vkw]
                  writes Y[vn, vo, vh, vw]
                  init:
                    Y[vn, vo, vh, vw] = 0.0
                  Y[vn, vo, vh, vw] = Y[vn, vo, vh, vw] + pad[vn, vc, vh * 2 + vkh, vw * 2 + vkw] * W[vo, vc, vkh, vkw]
)");
  std::vector<float> in = ramp_of(50), weights = ramp_of(54), out(27);
  run(f, {arg(in), arg(weights), arg(out)});
  for (int o = 0; o < 3; ++o)
    for (int h = 0; h < 3; ++h)
      for (int v = 0; v < 3; ++v) {
        float sum = 0;
        for (int ch = 0; ch < 2; ++ch)
          for (int r = 0; r < 3; ++r)
            for (int s = 0; s < 3; ++s) {
              const int row = h * 2 + r - 1, col = v * 2 + s - 1;
              if (row < 0 || row >= 5 || col < 0 || col >= 5) continue;
              sum += in[(ch * 5 + row) * 5 + col] * weights[((o * 2 + ch) * 3 + r) * 3 + s];
            }
        EXPECT_EQ(out[(o * 3 + h) * 3 + v], sum);
      }
}

TEST(Te, Softmax) {
  const Tensor x = placeholder({3, 7}, kF32, "X");
  const ReduceAxis a = reduce_axis(7, "k"), b = reduce_axis(7, "k");
  const Tensor peak = compute({3}, [&](const auto& i) { return te::ordered_max(x(i[0], a), {a}); }, "peak");
  const Tensor e = compute({3, 7}, [&](const auto& i) { return math("exp", {x(i) - peak(i[0])}); }, "e");
  const Tensor total = compute({3}, [&](const auto& i) { return te::sum(e(i[0], b), {b}); }, "total");
  const Tensor y = compute({3, 7}, [&](const auto& i) { return e(i) / total(i[0]); }, "Y");
  const Func f = te::create_func("softmax", {x}, {y});
  EXPECT_NE(text_of(f).find("  alloc peak: f32[3]\n  alloc e: f32[3, 7]\n  alloc total: f32[3]\n"), std::string::npos);
  std::vector<float> in = ramp_of(21), out(21);
  run(f, {arg(in), arg(out)});
  for (int i = 0; i < 3; ++i) {
    double sum = 0;
    for (int j = 0; j < 7; ++j) sum += std::exp(static_cast<double>(in[i * 7 + j]));
    for (int j = 0; j < 7; ++j) EXPECT_NEAR(out[i * 7 + j], std::exp(static_cast<double>(in[i * 7 + j])) / sum, 1e-6);
  }
  // NaN in a row is NaN in all of it, and in no other.
  in[9] = NAN;
  run(f, {arg(in), arg(out)});
  for (int i = 0; i < 21; ++i) EXPECT_EQ(std::isnan(out[i]), i / 7 == 1) << i;
}

TEST(Te, LayerNorm) {
  const Tensor x = placeholder({4, 16}, kF32, "X"), gamma = placeholder({16}, kF32, "gamma"),
               beta = placeholder({16}, kF32, "beta");
  const ReduceAxis k = reduce_axis(16, "k");
  const Tensor mean =
      compute({4}, [&](const auto& i) { return te::sum(x(i[0], k) * float_imm(1.0 / 16), {k}); }, "mean");
  const Tensor var = compute(
      {4},
      [&](const auto& i) {
        const Expr d = x(i[0], k) - mean(i[0]);
        return te::sum(d * d * float_imm(1.0 / 16), {k});  // the axis serves two computes
      },
      "var");
  const Tensor y = compute(
      {4, 16},
      [&](const auto& i) {
        return (x(i) - mean(i[0])) * math("rsqrt", {var(i[0]) + float_imm(1e-5)}) * gamma(i[1]) + beta(i[1]);
      },
      "Y");
  const Func f = te::create_func("layer_norm", {x, gamma, beta}, {y});
  text_of(f);
  std::vector<float> in = ramp_of(64), g = ramp_of(16, 1), b = ramp_of(16, 2), out(64);
  run(f, {arg(in), arg(g), arg(b), arg(out)});
  for (int i = 0; i < 4; ++i) {
    double m = 0, v = 0;
    for (int j = 0; j < 16; ++j) m += in[i * 16 + j] / 16.0;
    for (int j = 0; j < 16; ++j) v += (in[i * 16 + j] - m) * (in[i * 16 + j] - m) / 16;
    for (int j = 0; j < 16; ++j)
      EXPECT_NEAR(out[i * 16 + j], (in[i * 16 + j] - m) / std::sqrt(v + 1e-5) * g[j] + b[j], 1e-4);
  }
}

// Count, mean and sum of squared deviations in one pass, joined by Chan's formula.
TEST(Te, WelfordHasThreeStates) {
  const Tensor x = placeholder({3, 11}, kF32, "X");
  const ReduceAxis k = reduce_axis(11, "k");
  const auto states = te::compute_many(
      {3},
      [&](const auto& i) {
        return te::reduce({float_imm(1), x(i[0], k), float_imm(0)}, {float_imm(0), float_imm(0), float_imm(0)},
                          [](const auto& a, const auto& b) {
                            const Expr n = a[0] + b[0], delta = b[1] - a[1];
                            return std::vector<Expr>{n, a[1] + delta * b[0] / n,
                                                     a[2] + b[2] + delta * delta * a[0] * b[0] / n};
                          },
                          {k});
      },
      "welford");
  ASSERT_EQ(states.size(), 3u);
  const Tensor variance = compute({3}, [&](const auto& i) { return states[2](i) / states[0](i); }, "variance");
  const Func f = te::create_func("welford", {x}, {states[1], variance});
  text_of(f);
  std::vector<float> in = ramp_of(33), mean(3), var(3);
  run(f, {arg(in), arg(mean), arg(var)});
  for (int i = 0; i < 3; ++i) {
    double m = 0, v = 0;
    for (int j = 0; j < 11; ++j) m += in[i * 11 + j] / 11.0;
    for (int j = 0; j < 11; ++j) v += (in[i * 11 + j] - m) * (in[i * 11 + j] - m) / 11;
    EXPECT_NEAR(mean[i], m, 1e-5);
    EXPECT_NEAR(var[i], v, 1e-4);
  }
}

TEST(Te, ArgmaxTakesTheFirst) {
  const Tensor x = placeholder({2, 6}, kF32, "X");
  const ReduceAxis k = reduce_axis(6, "k");
  const auto best =
      te::compute_many({2}, [&](const auto& i) { return te::argmax(Expr(k), x(i[0], k), {k}); }, "argmax");
  const Func f = te::create_func("argmax", {x}, {best[0]});
  EXPECT_EQ(text_of(f), R"(func argmax(X: f32[2, 6], argmax.v0: i64[2] output):
  alloc argmax.v1: f32[2]
  for i0 in 2:
    for k in 6:
      block argmax(vi0: spatial[2] = i0, vk: reduce[6] = k):
        reads X[vi0, vk]
        writes argmax.v0[vi0], argmax.v1[vi0]
        init:
          argmax.v0[vi0] = 9223372036854775807
          argmax.v1[vi0] = -inf
        let value0 = select(argmax.v1[vi0] < X[vi0, vk] || X[vi0, vk] == argmax.v1[vi0] && vk < argmax.v0[vi0], vk, argmax.v0[vi0])
        let value1 = select(argmax.v1[vi0] < X[vi0, vk] || X[vi0, vk] == argmax.v1[vi0] && vk < argmax.v0[vi0], X[vi0, vk], argmax.v1[vi0])
        argmax.v0[vi0] = value0
        argmax.v1[vi0] = value1
)");
  std::vector<float> in{1, 5, 2, 5, 0, -1, -3, -2, -7, -1, -1, -4};
  std::vector<int64_t> out(2);
  run(f, {arg(in), arg(out)});
  EXPECT_EQ(out, (std::vector<int64_t>{1, 3}));
}

TEST(Te, ARecurrenceWritesOverItsStates) {
  const Tensor x = placeholder({6, 3}, kF32, "X"), s0 = placeholder({3}, kF32, "S0");
  const auto made = te::recur(
      6, {3}, [&](const auto& i) { return s0(i[0]); },
      [&](const auto& s, const Expr& t, const auto& i) {
        const Var sum = make_var("sum", kF32);
        return te::Step{{{sum, s[0] + x(t, i[0])}}, {Expr(sum) * Expr(sum)}, {Expr(sum)}};
      },
      "squares", {"i"});
  const Func f = te::create_func("squares", {x, s0}, made);
  EXPECT_EQ(text_of(f),
            R"(func squares(X: f32[6, 3], S0: f32[3], squares.v0: f32[3] output, squares.v1: f32[6, 3] output):
  for i in 3:
    block squares_init(vi: spatial[3] = i):
      reads S0[vi]
      writes squares.v0[vi]
      squares.v0[vi] = S0[vi]
  for i in 3:
    for t in 6:
      block squares(vi: spatial[3] = i, vt: scan[6] = t):
        reads squares.v0[vi], X[vt, vi]
        writes squares.v0[vi], squares.v1[vt, vi]
        let sum = squares.v0[vi] + X[vt, vi]
        let value0 = sum * sum
        squares.v0[vi] = value0
        squares.v1[vt, vi] = sum
)");
  std::vector<float> in(18, 1), start = {0, 1, -2}, last(3), sums(18);
  run(f, {arg(in), arg(start), arg(last), arg(sums)});
  for (size_t i = 0; i < 3; ++i) {
    float state = start[i];
    for (size_t t = 0; t < 6; ++t) {
      EXPECT_EQ(sums[3 * t + i], state + 1);
      state = (state + 1) * (state + 1);
    }
    EXPECT_EQ(last[i], state);
  }
}

TEST(Te, ScanOfOneState) {
  const Tensor x = placeholder({6, 3}, kF32, "X");
  const auto sum = te::scan(
      6, {3}, [&](const auto& i) { return x(0, i[0]); },
      [&](const auto& s, const Expr& t, const auto& i) { return s[0](t - 1, i[0]) + x(t, i[0]); }, "cumsum", {"i"});
  const Func f = te::create_func("cumsum", {x}, {sum[0]});
  EXPECT_EQ(text_of(f), R"(func cumsum(X: f32[6, 3], cumsum: f32[6, 3] output):
  for i in 3:
    block cumsum_init(vi: spatial[3] = i):
      reads X[0, vi]
      writes cumsum[0, vi]
      cumsum[0, vi] = X[0, vi]
  for t in 5:
    for i in 3:
      block cumsum(vt: scan[5] = t, vi: spatial[3] = i):
        reads cumsum[vt, vi], X[vt + 1, vi]
        writes cumsum[vt + 1, vi]
        cumsum[vt + 1, vi] = cumsum[vt, vi] + X[vt + 1, vi]
)");
  std::vector<float> in = ramp_of(18), out(18);
  run(f, {arg(in), arg(out)});
  for (int i = 0; i < 3; ++i) {
    float total = 0;
    for (int t = 0; t < 6; ++t) {
      total += in[t * 3 + i];
      EXPECT_EQ(out[t * 3 + i], total);
    }
  }
}

// h' = tanh(W h + x), with a second state that counts steps.
TEST(Te, RecurrentScanWithAReduction) {
  const Tensor x = placeholder({5, 4}, kF32, "X"), w = placeholder({4, 4}, kF32, "W");
  const ReduceAxis k = reduce_axis(4, "k");
  const auto h = te::scan(
      5, {4}, [&](const auto& i) { return x(0, i[0]); },
      [&](const auto& s, const Expr& t, const auto& i) { return te::sum(w(i[0], k) * s[0](t - 1, k), {k}); }, "H");
  const Func f = te::create_func("rnn", {x, w}, {h[0]});
  text_of(f);
  std::vector<float> in = ramp_of(20), weights = ramp_of(16, 0.125f), out(20);
  run(f, {arg(in), arg(weights), arg(out)});
  std::vector<float> state(in.begin(), in.begin() + 4);
  for (int t = 0; t < 5; ++t) {
    if (t > 0) {
      std::vector<float> next(4, 0.0f);
      for (int i = 0; i < 4; ++i)
        for (int r = 0; r < 4; ++r) next[i] += weights[i * 4 + r] * state[r];
      state = next;
    }
    for (int i = 0; i < 4; ++i) EXPECT_EQ(out[t * 4 + i], state[i]);
  }

  const auto two = te::scan(
      4, {}, [](const auto&) { return std::vector<Expr>{float_imm(1), int_imm(0)}; },
      [](const auto& s, const Expr& t, const auto&) {
        return std::vector<Expr>{s[0](t - 1) * float_imm(3), s[1](t - 1) + t};
      },
      "pair");
  const Func g = te::create_func("pair", {}, {two[0], two[1]});
  text_of(g);
  std::vector<float> powers(4);
  std::vector<int64_t> sums(4);
  run(g, {arg(powers), arg(sums)});
  EXPECT_EQ(powers, (std::vector<float>{1, 3, 9, 27}));
  EXPECT_EQ(sums, (std::vector<int64_t>{0, 1, 3, 6}));
}

TEST(Te, SymbolicShapesBecomeParameters) {
  const Var n = make_var("n"), m = make_var("m");
  const Tensor x = placeholder({n, m}, kF32, "X");
  const Tensor y = te::pad(x, {1, 0}, {0, 2}, float_imm(7), "Y");
  const Func f = te::create_func("pad", {x}, {y}, {.int_params = {{.var = m, .min = 1, .max = 64, .multiple_of = 2}}});
  EXPECT_EQ(text_of(f).substr(0, text_of(f).find('\n')),
            "func pad(X: f32[n, m], Y: f32[n + 1, m + 2] output, m: i64 in 1..64 % 2, n: i64):");
  std::vector<float> in{1, 2, 3, 4}, out(12);
  run(f, {arg(in), arg(out)}, {2, 2});
  EXPECT_EQ(out, (std::vector<float>{7, 7, 7, 7, 1, 2, 7, 7, 3, 4, 7, 7}));
}

TEST(Te, GatherReadsWholeDimensions) {
  const Tensor table = placeholder({10, 4}, kF32, "T"), ids = placeholder({3}, kI64, "I");
  const Tensor y = compute({3, 4}, [&](const auto& i) { return table(ids(i[0]), i[1]); }, "Y");
  const Func f = te::create_func("gather", {table, ids}, {y});
  EXPECT_NE(text_of(f).find("reads T[0 +: 10, vi1], I[vi0]"), std::string::npos) << to_text(f);
  std::vector<float> t = ramp_of(40), out(12);
  std::vector<int64_t> i{7, 0, 9};
  run(f, {arg(t), arg(i), arg(out)});
  for (size_t r = 0; r < 3; ++r)
    for (size_t c = 0; c < 4; ++c) EXPECT_EQ(out[r * 4 + c], t[static_cast<size_t>(i[r]) * 4 + c]);
}

// Bubble sort, which no element function can say.
TEST(Te, OpaqueBlocks) {
  const Tensor x = placeholder({8}, kF32, "X");
  const Tensor twice = compute({8}, [&](const auto& i) { return x(i) * float_imm(2); }, "twice");
  const auto sorted = te::opaque(
      {{{8}, kF32}}, {},
      [&](const std::vector<Buffer>& out) -> te::Statements {
        const Var c = make_var("c"), i = make_var("i"), j = make_var("j"), a = make_var("a", kF32),
                  b = make_var("b", kF32);
        const Expr here = load(out[0], {j}), next = load(out[0], {j + 1});
        return seq({make_for(c, 0, 8, store(out[0], {c}, twice(c))),
                    make_for(i, 0, 8,
                             make_for(j, 0, 7,
                                      let(a, here,
                                          let(b, next,
                                              seq({store(out[0], {j}, min(Expr(a), Expr(b))),
                                                   store(out[0], {j + 1}, max(Expr(a), Expr(b)))})))))});
      },
      "sort");
  const Func f = te::create_func("sort", {x}, {sorted[0]});
  text_of(f);
  std::vector<float> in{3, -1, 4, 1, -5, 9, 2, 6}, out(8);
  run(f, {arg(in), arg(out)});
  EXPECT_EQ(out, (std::vector<float>{-10, -2, 2, 4, 6, 8, 12, 18}));
}

TEST(Te, ScattersWhereDataSay) {
  const Tensor x = placeholder({3, 4}, kF32, "X"), at = placeholder({5}, kI64, "I"), u = placeholder({5, 4}, kF32, "U");
  const auto scattered = [&](const te::CombineFn& combine) {
    const Tensor y = te::scatter(
        {3, 4}, [&](const auto& i) { return x(i); }, {5, 4},
        [&](const auto& i) { return te::Update{{at(i[0]), i[1]}, u(i)}; }, combine, "Y");
    return te::create_func("scatter", {x, at, u}, {y});
  };
  const Func added = scattered([](const Expr& old, const Expr& value) { return old + value; });
  EXPECT_EQ(text_of(added), R"(func scatter(X: f32[3, 4], I: i64[5], U: f32[5, 4], Y: f32[3, 4] output):
  for i0 in 3:
    for i1 in 4:
      block Y_init(vi0: spatial[3] = i0, vi1: spatial[4] = i1):
        reads X[vi0, vi1]
        writes Y[vi0, vi1]
        Y[vi0, vi1] = X[vi0, vi1]
  for u0 in 5:
    for u1 in 4:
      block Y(vu0: scan[5] = u0, vu1: spatial[4] = u1):
        reads I[vu0], Y[0 +: 3, vu1], U[vu0, vu1]
        writes Y[0 +: 3, vu1]
        let place0 = I[vu0]
        if 0 <= place0 && place0 < 3:
          Y[place0, vu1] = Y[place0, vu1] + U[vu0, vu1]
)");
  // Repeated places, and places outside.
  std::vector<int64_t> places{2, 0, 2, -1, 3};
  std::vector<float> in(12, 1), updates(20), out(12);
  std::iota(updates.begin(), updates.end(), 0.0F);
  run(added, {arg(in), arg(places), arg(updates), arg(out)});
  EXPECT_EQ(out, (std::vector<float>{5, 6, 7, 8, 1, 1, 1, 1, 9, 11, 13, 15}));
  run(scattered(nullptr), {arg(in), arg(places), arg(updates), arg(out)});
  EXPECT_EQ(out, (std::vector<float>{4, 5, 6, 7, 1, 1, 1, 1, 8, 9, 10, 11}));
}

// Instances of a block of statements: each writes a row of its own.
TEST(Te, StatementsForEachRow) {
  const Tensor x = placeholder({3, 4}, kI64, "X");
  const Var row = make_var("vrow"), j = make_var("j");
  const Buffer sum = make_buffer("sum", {1}, kI64, kScopeRegister);
  const auto y = te::opaque(
      {{{3, 4}, kI64}}, {{row, 3}},
      [&](const std::vector<Buffer>& out) {
        return te::Statements(seq({store(sum, {0}, 0), make_for(j, 0, 4,
                                                                seq({store(sum, {0}, load(sum, {0}) + x(row, j)),
                                                                     store(out[0], {row, j}, load(sum, {0}))}))}),
                              {sum});
      },
      "Y");
  const Func f = te::create_func("rows", {x}, {y[0]});
  EXPECT_EQ(text_of(f), R"(func rows(X: i64[3, 4], Y: i64[3, 4] output):
  for row in 3:
    block Y(vrow: spatial[3] = row):
      alloc sum: i64[1] @register
      reads X[vrow, 0 +: 4]
      writes Y[vrow, 0 +: 4]
      sum[0] = 0
      for j in 4:
        sum[0] = sum[0] + X[vrow, j]
        Y[vrow, j] = sum[0]
)");
  std::vector<int64_t> in(12, 2), out(12);
  run(f, {arg(in), arg(out)});
  EXPECT_EQ(out, (std::vector<int64_t>{2, 4, 6, 8, 2, 4, 6, 8, 2, 4, 6, 8}));
}

TEST(Te, OtherElementTypes) {
  const Tensor a = placeholder({2, 4}, kU8, "A"), b = placeholder({4, 3}, kI8, "B");
  const ReduceAxis k = reduce_axis(4, "k"), r = reduce_axis(4, "k");
  const Tensor c = compute(
      {2, 3}, [&](const auto& i) { return te::sum(cast(kI32, a(i[0], k)) * cast(kI32, b(k, i[1])), {k}); }, "C");
  const Tensor least = compute({3}, [&](const auto& i) { return te::min(b(r, i[0]), {r}); }, "least");
  const Tensor product = compute({}, [&](const auto&) { return te::prod(cast(kI64, a(0, r)), {r}); }, "product");
  const Func f = te::create_func("mixed", {a, b}, {c, least, product});
  EXPECT_NE(text_of(f).find("least[vi0] = 127i8"), std::string::npos);
  std::vector<uint8_t> x{200, 1, 2, 255, 3, 4, 5, 6};
  std::vector<int8_t> y{1, -2, 3, 100, 5, -128, 7, 8, 9, -10, 11, 12};
  std::vector<int32_t> z(6);
  std::vector<int8_t> low(3);
  std::vector<int64_t> all(1);
  run(f, {arg(x), arg(y), arg(z), arg(low), arg(all)});
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      int32_t sum = 0;
      for (int s = 0; s < 4; ++s) sum += int32_t{x[i * 4 + s]} * y[s * 3 + j];
      EXPECT_EQ(z[i * 3 + j], sum);
    }
  EXPECT_EQ(low, (std::vector<int8_t>{-10, -2, -128}));
  EXPECT_EQ(all[0], 200 * 1 * 2 * 255);
}

// Each read is cast; what pads such a tensor stores no more than the tensor does.
TEST(Te, ReadsAsAnotherType) {
  const Tensor a = placeholder({4}, kF16, "A");
  const Tensor wide = a.read_as(kF32);
  EXPECT_EQ(wide.dtype(), kF32);
  EXPECT_EQ(wide.stored_dtype(), kF16);
  const Tensor padded = te::pad(wide, {1}, {0}, te::lowest(kF32));
  const Tensor b = compute({5}, [&](const auto& i) { return padded(i) * float_imm(2, kF32); }, "B");
  const Func f = te::create_func("doubled", {a}, {b});
  EXPECT_EQ(text_of(f), R"(func doubled(A: f16[4], B: f32[5] output):
  alloc pad: f16[5]
  for i0 in 5:
    block pad(vi0: spatial[5] = i0):
      reads A[vi0 - 1]
      writes pad[vi0]
      pad[vi0] = select(likely(1 <= vi0), A[vi0 - 1], -inf.f16)
  for i0 in 5:
    block B(vi0: spatial[5] = i0):
      reads pad[vi0]
      writes B[vi0]
      B[vi0] = f32(pad[vi0]) * 2.0
)");
}

TEST(Te, CutsAtInputsAndMakesNamesUnique) {
  const Tensor x = placeholder({4}, kF32, "X");
  const Tensor a = compute({4}, [&](const auto& i) { return x(i) + float_imm(1); }, "add");
  const Tensor b = compute({4}, [&](const auto& i) { return a(i) + a(i); }, "add");
  const Tensor c = compute({4}, [&](const auto& i) { return b(i) + a(i); }, "add");
  const Func whole = te::create_func("f", {x}, {c, b});
  EXPECT_NE(
      text_of(whole).find("func f(X: f32[4], add: f32[4] output, add_1: f32[4] output):\n  alloc add_2: f32[4]\n"),
      std::string::npos)
      << to_text(whole);
  std::vector<float> in{0, 1, 2, 3}, y(4), z(4);
  run(whole, {arg(in), arg(y), arg(z)});
  EXPECT_EQ(y, (std::vector<float>{3, 6, 9, 12}));
  EXPECT_EQ(z, (std::vector<float>{2, 4, 6, 8}));
  const Func part = te::create_func("g", {a}, {b});
  run(part, {arg(in), arg(y)});
  EXPECT_EQ(y, (std::vector<float>{0, 2, 4, 6}));
  EXPECT_EQ(canonical_hash(whole), canonical_hash(te::create_func("other", {x}, {c, b})));
  EXPECT_NE(canonical_hash(whole), canonical_hash(part));
}

TEST(Te, MistakesAreTold) {
  const Tensor a = placeholder({4}, kF32, "A");
  Var leaked;
  const auto read = [&](const auto& i) {
    leaked = i[0];
    return a(i[0]);
  };
  const Tensor b = compute({4}, read, "B");
  const Tensor wrong = compute({4}, [&](const auto&) { return a(Expr(leaked)); }, "D");
  EXPECT_EQ(te::make_func("f", {a}, {b}).value()->name, "f");
  EXPECT_EQ(te::make_func("f", {a}, {wrong}).error().code, ErrorCode::E102);  // a variable of another tensor
  EXPECT_EQ(te::make_func("f", {}, {b}).error().code, ErrorCode::E102);       // an input is missing
  EXPECT_EQ(te::make_func("f", {a, a}, {b}).error().code, ErrorCode::E102);
  EXPECT_EQ(te::make_func("f", {a}, {a}).error().code, ErrorCode::E102);
  EXPECT_EQ(te::make_func("f", {a}, {b, b}).error().code, ErrorCode::E102);
}

}  // namespace
}  // namespace fettle
