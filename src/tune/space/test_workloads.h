#pragma once
// Workloads of every kind, for tests only.

#include <ostream>
#include <string>
#include <vector>

#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::testing {

struct NamedWorkload {
  std::string name;
  Func func;
};
// As GoogleTest calls it.
inline void PrintTo(const NamedWorkload& workload, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << workload.name;
}

using Indices = std::vector<Var>;

inline Func matmul_workload(int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b, bool constant_b,
                            bool epilogue) {
  te::Tensor a = te::placeholder(transpose_a ? std::vector<Expr>{k, m} : std::vector<Expr>{m, k}, kF32, "A");
  te::Tensor b = te::placeholder(transpose_b ? std::vector<Expr>{n, k} : std::vector<Expr>{k, n}, kF32, "B");
  te::ReduceAxis r = te::reduce_axis(k, "k");
  te::Tensor c = te::compute({m, n},
                             [&](const Indices& i) {
                               const Expr x = transpose_a ? a(r, i[0]) : a(i[0], r),
                                          y = transpose_b ? b(i[1], r) : b(r, i[1]);
                               return te::sum(x * y, {r});
                             },
                             "C", {"i", "j"});
  if (!epilogue)
    return te::create_func("matmul", {a, b}, {c},
                           {.input_kinds = {ParamKind::kInput, constant_b ? ParamKind::kConstant : ParamKind::kInput}});
  te::Tensor bias = te::placeholder({n}, kF32, "bias"), residual = te::placeholder({m, n}, kF32, "residual");
  te::Tensor d = te::compute(
      {m, n}, [&](const Indices& i) { return max(c(i[0], i[1]) + bias(i[1]), float_imm(0)) + residual(i[0], i[1]); },
      "D", {"i", "j"});
  return te::create_func("matmul", {a, b, bias, residual}, {d},
                         {.input_kinds = {ParamKind::kInput, constant_b ? ParamKind::kConstant : ParamKind::kInput,
                                          ParamKind::kConstant}});
}

inline Func batched_matmul_workload(int64_t batch, int64_t m, int64_t n, int64_t k, bool transpose_b) {
  te::Tensor a = te::placeholder({batch, m, k}, kF32, "A");
  te::Tensor b =
      te::placeholder(transpose_b ? std::vector<Expr>{batch, n, k} : std::vector<Expr>{batch, k, n}, kF32, "B");
  te::ReduceAxis r = te::reduce_axis(k, "k");
  te::Tensor c =
      te::compute({batch, m, n},
                  [&](const Indices& i) {
                    return te::sum(a(i[0], i[1], r) * (transpose_b ? b(i[0], i[2], r) : b(i[0], r, i[2])), {r});
                  },
                  "C", {"b", "i", "j"});
  return te::create_func("batched_matmul", {a, b}, {c});
}

struct ConvSpec {
  int64_t n = 1, h = 7, w = 7, ic = 3, oc = 8, kernel = 3, stride = 1, padding = 1, dilation = 1, groups = 1;
  bool channels_last = true;
  bool epilogue = false;
  bool free_layout = false;
  int64_t out(int64_t x) const { return (x + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
};

/// Groups == ic == oc: depthwise.
inline Func conv_workload(const ConvSpec& p) {
  const auto image = [&](const Expr& n, const Expr& c, const Expr& h, const Expr& w) {
    return p.channels_last ? std::vector<Expr>{n, h, w, c} : std::vector<Expr>{n, c, h, w};
  };
  te::Tensor x = te::placeholder(image(p.n, p.ic, p.h, p.w), kF32, "X");
  te::Tensor w = te::placeholder({p.oc, p.ic / p.groups, p.kernel, p.kernel}, kF32, "W");
  te::Tensor padded = x;
  if (p.padding > 0)
    padded = te::pad(x, image(0, 0, p.padding, p.padding), image(0, 0, p.padding, p.padding), float_imm(0), "padded");
  const bool depthwise = p.groups == p.ic && p.groups == p.oc;
  te::ReduceAxis c = te::reduce_axis(p.ic / p.groups, "ic"), kh = te::reduce_axis(p.kernel, "kh"),
                 kw = te::reduce_axis(p.kernel, "kw");
  std::vector<te::ReduceAxis> axes = {kh, kw};
  if (!depthwise) axes.insert(axes.begin(), c);
  te::Tensor o = te::compute(
      image(p.n, p.oc, p.out(p.h), p.out(p.w)),
      [&](const Indices& i) {
        const Expr n = i[0], oc = p.channels_last ? i[3] : i[1], oh = p.channels_last ? i[1] : i[2],
                   ow = p.channels_last ? i[2] : i[3];
        const Expr channel = depthwise      ? oc
                             : p.groups > 1 ? floordiv(oc, p.oc / p.groups) * (p.ic / p.groups) + c
                                            : Expr(c);
        return te::sum(padded.at(image(n, channel, oh * p.stride + kh * p.dilation, ow * p.stride + kw * p.dilation)) *
                           w(oc, depthwise ? Expr(0) : Expr(c), kh, kw),
                       axes);
      },
      "O",
      p.channels_last ? std::vector<std::string>{"n", "oh", "ow", "oc"}
                      : std::vector<std::string>{"n", "oc", "oh", "ow"});
  te::FuncOptions options{.input_kinds = {ParamKind::kInput, ParamKind::kConstant}};
  if (p.free_layout) options.free_layout = {true, false, true};
  if (!p.epilogue) return te::create_func("conv", {x, w}, {o}, options);
  te::Tensor bias = te::placeholder({p.oc}, kF32, "bias");
  te::Tensor y = te::compute(
      o.shape(), [&](const Indices& i) { return max(o(i) + bias(p.channels_last ? i[3] : i[1]), float_imm(0)); }, "Y");
  options.input_kinds.push_back(ParamKind::kConstant);
  return te::create_func("conv_relu", {x, w, bias}, {y}, options);
}

struct StripSpec {
  int64_t n = 1, h = 6, w = 7, in = 20, out = 9, kernel = 3, stride = 1;
  bool residual = false;
};

/// Depthwise convolution and 1x1 convolution, each with a bias and relu: channels last.
inline Func strip_workload(const StripSpec& p) {
  const auto pointwise = [](const te::Tensor& x, const te::Tensor& w, const te::Tensor& bias, int64_t channels,
                            const std::string& name) {
    te::ReduceAxis c = te::reduce_axis(x.shape().back(), "ic");
    std::vector<Expr> shape = x.shape();
    shape.back() = channels;
    te::Tensor sum = te::compute(
        shape,
        [&](const Indices& i) {
          std::vector<Expr> at(i.begin(), i.end());
          at.back() = c;
          return te::sum(x.at(at) * w(i.back(), c), {c});
        },
        name);
    return te::compute(
        shape, [&](const Indices& i) { return max(sum(i) + bias(i.back()), float_imm(0)); }, name + "_relu");
  };
  std::vector<te::Tensor> inputs;
  std::vector<ParamKind> kinds;
  const auto input = [&](std::vector<Expr> shape, const std::string& name, ParamKind kind) {
    inputs.push_back(te::placeholder(std::move(shape), kF32, name));
    kinds.push_back(kind);
    return inputs.back();
  };
  const auto image = [&](int64_t h, int64_t w, int64_t c) {
    return p.n > 1 ? std::vector<Expr>{p.n, h, w, c} : std::vector<Expr>{h, w, c};
  };
  const int64_t pad = p.kernel / 2;
  const int64_t oh = (p.h - 1) / p.stride + 1, ow = (p.w - 1) / p.stride + 1;
  te::Tensor x = input(image(p.h, p.w, p.in), "X", ParamKind::kInput);
  te::Tensor k = input({p.in, p.kernel, p.kernel}, "K", ParamKind::kConstant);
  te::Tensor bias = input({p.in}, "k", ParamKind::kConstant);
  std::vector<Expr> around = image(pad, pad, 0);
  if (p.n > 1) around[0] = 0;
  te::Tensor padded = te::pad(x, around, around, float_imm(0), "padded");
  te::ReduceAxis kh = te::reduce_axis(p.kernel, "kh"), kw = te::reduce_axis(p.kernel, "kw");
  te::Tensor sum = te::compute(
      image(oh, ow, p.in),
      [&](const Indices& i) {
        std::vector<Expr> at(i.begin(), i.end());
        const size_t d = at.size() - 3;
        at[d] = i[d] * p.stride + kh;
        at[d + 1] = i[d + 1] * p.stride + kw;
        return te::sum(padded.at(at) * k(i.back(), kh, kw), {kh, kw});
      },
      "depthwise");
  te::Tensor y = te::compute(
      sum.shape(), [&](const Indices& i) { return max(sum(i) + bias(i.back()), float_imm(0)); }, "depthwise_relu");
  const te::Tensor of_outputs = input({p.out}, "w", ParamKind::kConstant);
  const te::Tensor weights = input({p.out, p.in}, "W", ParamKind::kConstant);
  y = pointwise(y, weights, of_outputs, p.out, "project");
  if (p.residual) {
    te::Tensor r = input(image(oh, ow, p.out), "R", ParamKind::kInput);
    te::Tensor before = y;
    y = te::compute(r.shape(), [&](const Indices& i) { return before(i) + r(i); }, "sum");
  }
  return te::create_func("strips", inputs, {y}, {.input_kinds = kinds});
}

/// Kernel 2, stride 2; one output channel: none of its own.
inline Func conv_transpose_workload(int64_t h, int64_t w, int64_t ic, int64_t oc) {
  te::Tensor x = te::placeholder({h, w, ic}, kF32, "X");
  te::Tensor k = te::placeholder(oc > 1 ? std::vector<Expr>{ic, oc, 2, 2} : std::vector<Expr>{ic, 2, 2}, kF32, "W");
  te::ReduceAxis c = te::reduce_axis(ic, "ic");
  te::Tensor o = te::compute(
      oc > 1 ? std::vector<Expr>{2 * h, 2 * w, oc} : std::vector<Expr>{2 * h, 2 * w},
      [&](const Indices& i) {
        std::vector<Expr> at = {c, floormod(Expr(i[0]), 2), floormod(Expr(i[1]), 2)};
        if (oc > 1) at.insert(at.begin() + 1, Expr(i[2]));
        return te::sum(x(floordiv(Expr(i[0]), 2), floordiv(Expr(i[1]), 2), c) * k.at(at), {c});
      },
      "O");
  return te::create_func("conv_transpose", {x, k}, {o}, {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}});
}

inline Func pool_workload(int64_t h, int64_t w, int64_t c, bool average, bool channels_last) {
  const auto image = [&](const Expr& ch, const Expr& y, const Expr& x) {
    return channels_last ? std::vector<Expr>{1, y, x, ch} : std::vector<Expr>{1, ch, y, x};
  };
  te::Tensor x = te::placeholder(image(c, h, w), kF32, "X");
  std::vector<Expr> around = image(0, 1, 1);
  around[0] = 0;
  te::Tensor padded = te::pad(x, around, around, average ? float_imm(0) : te::lowest(kF32), "padded");
  te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const std::vector<Expr> shape = image(c, (h + 1) / 2, (w + 1) / 2);
  te::Tensor o = te::compute(
      shape,
      [&](const Indices& i) {
        const Expr ch = channels_last ? i[3] : i[1], y = channels_last ? i[1] : i[2], xx = channels_last ? i[2] : i[3];
        std::vector<Expr> at = image(ch, y * 2 + kh, xx * 2 + kw);
        at[0] = i[0];
        return average ? te::sum(padded.at(at), {kh, kw}) : te::max(padded.at(at), {kh, kw});
      },
      "P");
  if (!average) return te::create_func("max_pool", {x}, {o});
  te::Tensor y = te::compute(shape, [&](const Indices& i) { return o(i) * float_imm(0.125); }, "Y");
  return te::create_func("average_pool", {x}, {y});
}

inline Func softmax_workload(int64_t rows, int64_t n) {
  te::Tensor x = te::placeholder({rows, n}, kF32, "X");
  te::ReduceAxis r = te::reduce_axis(n, "r"), q = te::reduce_axis(n, "q");
  te::Tensor m = te::compute({rows}, [&](const Indices& i) { return te::ordered_max(x(i[0], r), {r}); }, "M");
  te::Tensor e = te::compute({rows, n}, [&](const Indices& i) { return math("exp", {x(i[0], i[1]) - m(i[0])}); }, "E");
  te::Tensor s = te::compute({rows}, [&](const Indices& i) { return te::sum(e(i[0], q), {q}); }, "S");
  te::Tensor y = te::compute({rows, n}, [&](const Indices& i) { return e(i[0], i[1]) / s(i[0]); }, "Y");
  return te::create_func("softmax", {x}, {y});
}

/// Over the middle axis: rows lie side by side in memory.
inline Func softmax_middle_workload(int64_t a, int64_t n, int64_t b) {
  te::Tensor x = te::placeholder({a, n, b}, kF32, "X");
  te::ReduceAxis r = te::reduce_axis(n, "r"), q = te::reduce_axis(n, "q");
  te::Tensor m = te::compute({a, b}, [&](const Indices& i) { return te::ordered_max(x(i[0], r, i[1]), {r}); }, "M");
  te::Tensor e = te::compute({a, n, b}, [&](const Indices& i) { return math("exp", {x(i) - m(i[0], i[2])}); }, "E");
  te::Tensor s = te::compute({a, b}, [&](const Indices& i) { return te::sum(e(i[0], q, i[1]), {q}); }, "S");
  te::Tensor y = te::compute({a, n, b}, [&](const Indices& i) { return e(i) / s(i[0], i[2]); }, "Y");
  return te::create_func("softmax_middle", {x}, {y});
}

/// Scores, their softmax, and what they weigh, in so many heads.
inline Func attention_workload(int64_t heads, int64_t n, int64_t d) {
  const te::Tensor q = te::placeholder({heads, n, d}, kF32, "Q"), k = te::placeholder({heads, n, d}, kF32, "K"),
                   v = te::placeholder({heads, n, d}, kF32, "V");
  const te::ReduceAxis c = te::reduce_axis(d, "c"), j1 = te::reduce_axis(n, "j1"), j2 = te::reduce_axis(n, "j2"),
                       j3 = te::reduce_axis(n, "j3");
  const te::Tensor s = te::compute(
      {heads, n, n}, [&](const Indices& i) { return te::sum(q(i[0], i[1], c) * k(i[0], i[2], c), {c}); }, "S");
  const te::Tensor m =
      te::compute({heads, n}, [&](const Indices& i) { return te::ordered_max(s(i[0], i[1], j1), {j1}); }, "M");
  const te::Tensor e = te::compute(
      {heads, n, n}, [&](const Indices& i) { return math("exp", {s(i[0], i[1], i[2]) - m(i[0], i[1])}); }, "E");
  const te::Tensor sum =
      te::compute({heads, n}, [&](const Indices& i) { return te::sum(e(i[0], i[1], j2), {j2}); }, "T");
  const te::Tensor p =
      te::compute({heads, n, n}, [&](const Indices& i) { return e(i[0], i[1], i[2]) / sum(i[0], i[1]); }, "P");
  const te::Tensor y = te::compute(
      {heads, n, d}, [&](const Indices& i) { return te::sum(p(i[0], i[1], j3) * v(i[0], j3, i[2]), {j3}); }, "Y");
  return te::create_func("attention", {q, k, v}, {y});
}

/// Rows less their mean, and the mean of what that is squared.
struct Deviations {
  te::Tensor d, v;
  double scale;

  Deviations(const te::Tensor& x, int64_t rows, int64_t n) : scale(1.0 / static_cast<double>(n)) {
    te::ReduceAxis r = te::reduce_axis(n, "r"), q = te::reduce_axis(n, "q");
    te::Tensor s = te::compute({rows}, [&](const Indices& i) { return te::sum(x(i[0], r), {r}); }, "S");
    d = te::compute({rows, n}, [&](const Indices& i) { return x(i[0], i[1]) - s(i[0]) * float_imm(scale); }, "D");
    v = te::compute({rows}, [&](const Indices& i) { return te::sum(d(i[0], q) * d(i[0], q), {q}); }, "V");
  }
  Expr variance(const Expr& row) const { return v(row) * float_imm(scale) + float_imm(1e-5); }
};

/// (x - mean) / sqrt(mean((x - mean)²) + epsilon), as exporters write it out.
inline Func decomposed_norm_workload(int64_t rows, int64_t n) {
  te::Tensor x = te::placeholder({rows, n}, kF32, "X");
  const Deviations of(x, rows, n);
  te::Tensor y = te::compute(
      {rows, n}, [&](const Indices& i) { return of.d(i[0], i[1]) / math("sqrt", {of.variance(i[0])}); }, "Y");
  return te::create_func("decomposed_norm", {x}, {y});
}

/// The mean of each row, of all rows at once where there is one.
inline Func row_means_workload(int64_t rows, int64_t n) {
  te::Tensor x = te::placeholder({rows, n}, kF32, "X");
  te::ReduceAxis r = te::reduce_axis(n, "r");
  te::Tensor s = te::compute({rows}, [&](const Indices& i) { return te::sum(x(i[0], r), {r}); }, "S");
  te::Tensor y =
      te::compute({rows}, [&](const Indices& i) { return s(i[0]) * float_imm(1.0 / static_cast<double>(n)); }, "Y");
  return te::create_func("row_means", {x}, {y});
}

inline Func layer_norm_workload(int64_t rows, int64_t n) {
  te::Tensor x = te::placeholder({rows, n}, kF32, "X"), g = te::placeholder({n}, kF32, "G"),
             b = te::placeholder({n}, kF32, "B");
  const Deviations of(x, rows, n);
  te::Tensor y = te::compute(
      {rows, n},
      [&](const Indices& i) { return of.d(i[0], i[1]) * math("rsqrt", {of.variance(i[0])}) * g(i[1]) + b(i[1]); }, "Y");
  return te::create_func("layer_norm", {x, g, b}, {y},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}});
}

inline Func elementwise_workload(int64_t a, int64_t b, int64_t c) {
  te::Tensor x = te::placeholder({a, b, c}, kF32, "X"), bias = te::placeholder({c}, kF32, "bias"),
             scale = te::placeholder({a, 1, c}, kF32, "scale");
  te::Tensor y = te::compute(
      {a, b, c}, [&](const Indices& i) { return max(x(i) + bias(i[2]), float_imm(0)) * scale(i[0], Expr(0), i[2]); },
      "Y");
  return te::create_func("elementwise", {x, bias, scale}, {y});
}

inline Func relu_workload(int64_t a, int64_t b, int64_t c) {
  te::Tensor x = te::placeholder({a, b, c}, kF32, "X");
  te::Tensor y = te::compute({a, b, c}, [&](const Indices& i) { return max(x(i), float_imm(0)); }, "Y");
  return te::create_func("relu", {x}, {y});
}

inline Func transpose_workload(int64_t a, int64_t b, int64_t c) {
  te::Tensor x = te::placeholder({a, b, c}, kF32, "X");
  te::Tensor y = te::compute({c, a, b}, [&](const Indices& i) { return x(i[1], i[2], i[0]); }, "Y");
  return te::create_func("transpose", {x}, {y});
}

inline Func reduction_workload(int64_t a, int64_t b, int64_t c, bool middle) {
  te::Tensor x = te::placeholder({a, b, c}, kF32, "X");
  te::ReduceAxis r = te::reduce_axis(middle ? b : c, "r");
  te::Tensor y = te::compute(
      {a, middle ? c : b}, [&](const Indices& i) { return te::sum(middle ? x(i[0], r, i[1]) : x(i[0], i[1], r), {r}); },
      "Y");
  return te::create_func("reduction", {x}, {y});
}

/// Small and odd, so that the interpreter is quick and every tail appears.
inline std::vector<NamedWorkload> small_workloads() {
  return {
      {"matmul", matmul_workload(19, 37, 11, false, false, true, false)},
      {"matmul_even", matmul_workload(24, 64, 16, false, false, true, false)},
      {"matmul_variable_b", matmul_workload(19, 37, 11, false, false, false, false)},
      {"matmul_transposed_a", matmul_workload(19, 37, 11, true, false, true, false)},
      {"matmul_transposed_b", matmul_workload(19, 37, 11, false, true, true, false)},
      {"matmul_transposed_variable_b", matmul_workload(19, 37, 11, false, true, false, true)},
      {"matmul_epilogue", matmul_workload(19, 37, 11, false, false, true, true)},
      {"matmul_one_row", matmul_workload(1, 70, 33, false, false, true, true)},
      {"matmul_one_column", matmul_workload(33, 1, 20, false, false, true, false)},
      {"matmul_three_columns", matmul_workload(33, 3, 20, false, false, true, false)},
      {"matmul_deep", matmul_workload(5, 18, 700, false, false, true, true)},
      {"batched_matmul", batched_matmul_workload(3, 10, 20, 7, false)},
      {"batched_matmul_transposed_b", batched_matmul_workload(3, 10, 20, 7, true)},
      {"conv", conv_workload({.ic = 5, .oc = 20})},
      {"conv_epilogue", conv_workload({.ic = 5, .oc = 20, .epilogue = true})},
      {"conv_stride", conv_workload({.h = 9, .w = 10, .ic = 4, .oc = 18, .stride = 2})},
      {"conv_dilated", conv_workload({.h = 9, .w = 10, .ic = 4, .oc = 18, .padding = 2, .dilation = 2})},
      {"conv_1x1", conv_workload({.h = 5, .w = 6, .ic = 9, .oc = 33, .kernel = 1, .padding = 0, .epilogue = true})},
      {"conv_1x1_flat",
       conv_workload({.h = 5, .w = 11, .ic = 9, .oc = 33, .kernel = 1, .padding = 0, .epilogue = true})},
      {"conv_1x1_batch", conv_workload({.n = 2, .h = 5, .w = 6, .ic = 9, .oc = 33, .kernel = 1, .padding = 0})},
      {"conv_nchw", conv_workload({.h = 6, .w = 21, .ic = 3, .oc = 5, .channels_last = false, .epilogue = true})},
      {"conv_nchw_stride", conv_workload({.h = 6, .w = 21, .ic = 3, .oc = 5, .stride = 2, .channels_last = false})},
      {"conv_free_layout", conv_workload({.ic = 32, .oc = 20, .channels_last = false, .free_layout = true})},
      {"conv_grouped", conv_workload({.ic = 8, .oc = 32, .groups = 2})},
      {"conv_groups_of_six", conv_workload({.h = 5, .w = 9, .ic = 18, .oc = 18, .groups = 3, .epilogue = true})},
      {"depthwise", conv_workload({.h = 9, .w = 11, .ic = 21, .oc = 21, .groups = 21, .epilogue = true})},
      {"depthwise_stride",
       conv_workload({.h = 9, .w = 11, .ic = 21, .oc = 21, .kernel = 5, .stride = 2, .padding = 2, .groups = 21})},
      {"conv_transpose", conv_transpose_workload(5, 7, 6, 20)},
      {"conv_transpose_one_channel", conv_transpose_workload(5, 12, 6, 1)},
      {"matmul_twelve_columns", matmul_workload(33, 12, 20, false, true, true, true)},
      {"max_pool", pool_workload(9, 12, 20, false, true)},
      {"average_pool", pool_workload(9, 12, 20, true, true)},
      {"max_pool_nchw", pool_workload(8, 34, 3, false, false)},
      {"depthwise_pointwise", strip_workload({})},
      {"depthwise_pointwise_wide", strip_workload({.h = 4, .w = 18, .in = 33, .out = 40, .residual = true})},
      {"depthwise_pointwise_stride", strip_workload({.h = 9, .w = 10, .kernel = 5, .stride = 2})},
      {"depthwise_pointwise_batch", strip_workload({.n = 2, .h = 4, .w = 6, .in = 16, .out = 16})},
      {"softmax", softmax_workload(5, 37)},
      {"softmax_long", softmax_workload(4, 300)},
      {"attention", attention_workload(2, 13, 10)},
      {"softmax_short", softmax_workload(9, 10)},
      {"softmax_tiny", softmax_workload(9, 3)},
      {"softmax_middle", softmax_middle_workload(2, 7, 37)},
      {"softmax_middle_even", softmax_middle_workload(3, 5, 64)},
      {"layer_norm", layer_norm_workload(5, 37)},
      {"decomposed_norm", decomposed_norm_workload(6, 64)},
      {"row_means", row_means_workload(5, 70)},
      {"elementwise", elementwise_workload(3, 7, 19)},
      {"relu", relu_workload(3, 7, 19)},
      {"transpose", transpose_workload(5, 6, 19)},
      {"transpose_wide", transpose_workload(2, 18, 37)},
      {"reduction_last", reduction_workload(3, 7, 40, false)},
      {"reduction_middle", reduction_workload(3, 40, 21, true)},
  };
}

}  // namespace fettle::testing
