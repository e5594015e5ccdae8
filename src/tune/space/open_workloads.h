#pragma once
// Workloads whose sizes are integer parameters, and the same ones for given sizes: for tests and benchmarks.

#include <algorithm>
#include <functional>
#include <limits>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "arith/analyzer.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::testing {

using Sizes = std::vector<Expr>;

struct OpenWorkload {
  std::string name;
  std::vector<IntParam> sizes;
  std::function<Func(const Sizes& sizes, const std::vector<IntParam>& int_params)> make;
  double tolerance = 0;  // of the largest value: 0 where small integers are exact

  Func open() const {
    Sizes vars;
    for (const IntParam& size : sizes) vars.push_back(Expr(size.var));
    return make(vars, sizes);
  }
  Func with_sizes(const std::vector<int64_t>& values) const { return make(Sizes(values.begin(), values.end()), {}); }
};
// As GoogleTest calls it.
inline void PrintTo(const OpenWorkload& workload, std::ostream* out) {  // NOLINT(readability-identifier-naming)
  *out << workload.name;
}

inline IntParam size(const std::string& name, int64_t min = 1, int64_t max = 512, int64_t multiple_of = 1,
                     int64_t typical = 0) {
  return {make_var(name), min, max, multiple_of, typical};
}

/// [batch…, m, k] x [batch…, k, n], operands transposed or not, perhaps constant weights and an epilogue.
struct OpenProduct {
  std::vector<Expr> batch = {};
  Expr m, n, k;
  bool transpose_a = false, transpose_b = false, constant_b = false, epilogue = false;
  Expr scale = {};
};
inline Func open_product(const OpenProduct& p, const std::vector<IntParam>& ints) {
  const auto shape = [&](const Expr& x, const Expr& y) {
    std::vector<Expr> all = p.batch;
    all.insert(all.end(), {x, y});
    return all;
  };
  const te::Tensor a = te::placeholder(p.transpose_a ? shape(p.k, p.m) : shape(p.m, p.k), kF32, "A");
  const std::vector<Expr> b_shape = p.transpose_b ? shape(p.n, p.k) : shape(p.k, p.n);
  const te::Tensor b =
      te::placeholder(p.constant_b ? std::vector<Expr>(b_shape.end() - 2, b_shape.end()) : b_shape, kF32, "B");
  const te::ReduceAxis r = te::reduce_axis(p.k, "k");
  const size_t n_batch = p.batch.size();
  const te::Tensor c = te::compute(
      shape(p.m, p.n),
      [&](const std::vector<Var>& i) {
        const std::vector<Expr> batch(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(n_batch));
        const auto at = [&](bool batched, const Expr& x, const Expr& y) {
          std::vector<Expr> all = batched ? batch : std::vector<Expr>();
          all.insert(all.end(), {x, y});
          return all;
        };
        const Expr row = i[n_batch], column = i[n_batch + 1];
        const Expr x = a.at(p.transpose_a ? at(true, r, row) : at(true, row, r));
        const Expr y = b.at(p.transpose_b ? at(!p.constant_b, column, r) : at(!p.constant_b, r, column));
        return te::sum(x * y, {r});
      },
      "C");
  te::FuncOptions options{.input_kinds = {ParamKind::kInput, p.constant_b ? ParamKind::kConstant : ParamKind::kInput},
                          .int_params = ints};
  if (p.scale) {
    const te::Tensor d = te::compute(c.shape(), [&](const std::vector<Var>& i) { return c(i) * p.scale; }, "D");
    return te::create_func("product", {a, b}, {d}, options);
  }
  if (!p.epilogue) return te::create_func("product", {a, b}, {c}, options);
  const te::Tensor bias = te::placeholder({p.n}, kF32, "bias"), residual = te::placeholder(c.shape(), kF32, "residual");
  const te::Tensor d = te::compute(
      c.shape(),
      [&](const std::vector<Var>& i) { return max(c(i) + bias(Expr(i.back())), float_imm(0)) + residual(i); }, "D");
  return te::create_func("product", {a, b, bias, residual}, {d}, options);
}

struct OpenConv {
  Expr n = 1, h = 1, w = 1;
  int64_t ic = 8, oc = 16, kernel = 3, stride = 1, padding = 1;
  bool depthwise = false, channels_last = true, relu = true;
};
inline Func open_conv(const OpenConv& p, const std::vector<IntParam>& ints) {
  const auto image = [&](const Expr& n, const Expr& c, const Expr& h, const Expr& w) {
    return p.channels_last ? std::vector<Expr>{n, h, w, c} : std::vector<Expr>{n, c, h, w};
  };
  const auto out = [&](const Expr& x) {
    return simplify(floordiv(x + (2 * p.padding - p.kernel), Expr(p.stride)) + 1);
  };
  const te::Tensor x = te::placeholder(image(p.n, p.ic, p.h, p.w), kF32, "X");
  const te::Tensor w = te::placeholder({p.oc, p.depthwise ? 1 : p.ic, p.kernel, p.kernel}, kF32, "W");
  const std::vector<Expr> around = image(0, 0, p.padding, p.padding);
  const te::Tensor padded = p.padding > 0 ? te::pad(x, around, around, float_imm(0), "padded") : x;
  const te::ReduceAxis c = te::reduce_axis(p.ic, "ic"), kh = te::reduce_axis(p.kernel, "kh"),
                       kw = te::reduce_axis(p.kernel, "kw");
  std::vector<te::ReduceAxis> axes = {kh, kw};
  if (!p.depthwise) axes.insert(axes.begin(), c);
  const te::Tensor o = te::compute(
      image(p.n, p.oc, out(p.h), out(p.w)),
      [&](const std::vector<Var>& i) {
        const Expr oc = p.channels_last ? i[3] : i[1], oh = p.channels_last ? i[1] : i[2],
                   ow = p.channels_last ? i[2] : i[3];
        return te::sum(padded.at(image(i[0], p.depthwise ? oc : Expr(c), oh * p.stride + kh, ow * p.stride + kw)) *
                           w(oc, p.depthwise ? Expr(0) : Expr(c), kh, kw),
                       axes);
      },
      "O");
  const te::FuncOptions options{.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant},
                                .int_params = ints};
  if (!p.relu) return te::create_func("conv", {x, w}, {o}, options);
  const te::Tensor bias = te::placeholder({p.oc}, kF32, "bias");
  const te::Tensor y = te::compute(
      o.shape(),
      [&](const std::vector<Var>& i) { return max(o(i) + bias(Expr(p.channels_last ? i[3] : i[1])), float_imm(0)); },
      "Y");
  return te::create_func("conv", {x, w, bias}, {y}, options);
}

/// Of [rows…, axis]: the rows' indices, and an element of a row.
inline std::vector<Expr> row_of(const std::vector<Var>& i) { return {i.begin(), i.end() - 1}; }
inline std::vector<Expr> in_row(const std::vector<Var>& row, const Expr& last) {
  std::vector<Expr> at(row.begin(), row.end());
  at.push_back(last);
  return at;
}

/// Of the last axis of [rows…, axis].
inline Func open_softmax(std::vector<Expr> shape, const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder(shape, kF32, "X");
  const Expr axis = shape.back();
  const std::vector<Expr> rows(shape.begin(), shape.end() - 1);
  const te::ReduceAxis k = te::reduce_axis(axis, "k"), l = te::reduce_axis(axis, "l");
  const te::Tensor m =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::max(x.at(in_row(i, k)), {k}); }, "M");
  const te::Tensor e =
      te::compute(shape, [&](const std::vector<Var>& i) { return call("exp", {x(i) - m.at(row_of(i))}, kF32); }, "E");
  const te::Tensor s =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::sum(e.at(in_row(i, l)), {l}); }, "S");
  const te::Tensor y = te::compute(shape, [&](const std::vector<Var>& i) { return e(i) / s.at(row_of(i)); }, "Y");
  return te::create_func("softmax", {x}, {y}, {.int_params = ints});
}

/// [heads, queries, width] of queries; `group` heads share keys and values. Query i sees keys up to `before` + i, where
/// there is `before`.
struct OpenAttention {
  Expr heads = 2, queries, keys;
  int64_t width = 8, value_width = 12, group = 1;
  Expr before = {};
};
inline Func open_attention(const OpenAttention& p, const std::vector<IntParam>& ints) {
  using Indices = std::vector<Expr>;
  const auto of_heads = [&](Indices heads, const Indices& more) {
    if (p.group == 1) heads.resize(1);
    heads.insert(heads.end(), more.begin(), more.end());
    return heads;
  };
  const Indices heads = {p.heads, p.group};
  const size_t n = p.group == 1 ? 1 : 2;
  const te::Tensor q = te::placeholder(of_heads(heads, {p.queries, p.width}), kF32, "Q"),
                   k = te::placeholder({p.heads, p.keys, p.width}, kF32, "K"),
                   v = te::placeholder({p.heads, p.keys, p.value_width}, kF32, "V");
  const te::ReduceAxis d = te::reduce_axis(p.width, "d"), l = te::reduce_axis(p.keys, "l"),
                       m = te::reduce_axis(p.keys, "m"), j = te::reduce_axis(p.keys, "j");
  const Indices rows = of_heads(heads, {p.queries}), all = of_heads(heads, {p.queries, p.keys});
  const auto row = [&](const std::vector<Var>& i) {
    return Indices(i.begin(), i.begin() + static_cast<std::ptrdiff_t>(n) + 1);
  };
  const auto element = [&](const std::vector<Var>& i, const Expr& at) {
    Indices indices = row(i);
    indices.push_back(at);
    return indices;
  };
  const te::Tensor x = te::compute(
      all, [&](const std::vector<Var>& i) { return te::sum(q(element(i, d)) * k(i[0], i[n + 1], d), {d}); }, "X");
  const auto score = [&](const std::vector<Var>& i, const Expr& key) {
    const Expr scaled = x(element(i, key)) * float_imm(0.25);
    const Expr hidden = constant(-std::numeric_limits<double>::infinity(), kF32);
    return p.before ? select(le(key, i[n] + p.before), scaled, hidden) : scaled;
  };
  const te::Tensor highest =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::max(score(i, l), {l}); }, "M");
  const te::Tensor e = te::compute(
      all, [&](const std::vector<Var>& i) { return call("exp", {score(i, i[n + 1]) - highest(row(i))}, kF32); }, "E");
  const te::Tensor s =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::sum(e(element(i, m)), {m}); }, "S");
  const te::Tensor w = te::compute(all, [&](const std::vector<Var>& i) { return e(i) / s(row(i)); }, "W");
  const te::Tensor o = te::compute(
      of_heads(heads, {p.queries, p.value_width}),
      [&](const std::vector<Var>& i) { return te::sum(w(element(i, j)) * v(i[0], j, i[n + 1]), {j}); }, "O");
  return te::create_func("attention", {q, k, v}, {o}, {.int_params = ints});
}

inline Func open_layer_norm(std::vector<Expr> shape, const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder(shape, kF32, "X"), gain = te::placeholder({shape.back()}, kF32, "gain"),
                   bias = te::placeholder({shape.back()}, kF32, "bias");
  const Expr axis = shape.back();
  const Expr share = float_imm(1) / cast(kF32, axis);
  const std::vector<Expr> rows(shape.begin(), shape.end() - 1);
  const te::ReduceAxis k = te::reduce_axis(axis, "k"), l = te::reduce_axis(axis, "l");
  const te::Tensor sum =
      te::compute(rows, [&](const std::vector<Var>& i) { return te::sum(x.at(in_row(i, k)), {k}); }, "sum");
  const te::Tensor mean = te::compute(rows, [&](const std::vector<Var>& i) { return sum(i) * share; }, "mean");
  const te::Tensor d =
      te::compute(shape, [&](const std::vector<Var>& i) { return x(i) - mean.at(row_of(i)); }, "centred");
  const te::Tensor squares = te::compute(
      rows, [&](const std::vector<Var>& i) { return te::sum(d.at(in_row(i, l)) * d.at(in_row(i, l)), {l}); },
      "squares");
  const te::Tensor y = te::compute(
      shape,
      [&](const std::vector<Var>& i) {
        return d(i) / call("sqrt", {squares.at(row_of(i)) * share + float_imm(1e-5)}, kF32) * gain(Expr(i.back())) +
               bias(Expr(i.back()));
      },
      "Y");
  return te::create_func(
      "layer_norm", {x, gain, bias}, {y},
      {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}, .int_params = ints});
}

inline Func open_elementwise(std::vector<Expr> shape, const std::vector<IntParam>& ints, bool gelu = false) {
  const te::Tensor x = te::placeholder(shape, kF32, "X"), y = te::placeholder(shape, kF32, "Y");
  const te::Tensor z = te::compute(
      shape,
      [&](const std::vector<Var>& i) {
        if (!gelu) return x(i) * float_imm(2) + y(i);
        return x(i) * float_imm(0.5) * (float_imm(1) + call("erf", {x(i) * float_imm(0.70710678)}, kF32));
      },
      "Z");
  return gelu ? te::create_func("gelu", {x}, {z}, {.int_params = ints})
              : te::create_func("elementwise", {x, y}, {z}, {.int_params = ints});
}

/// Output dimension d is input dimension order[d].
inline Func open_transpose(const std::vector<Expr>& shape, const std::vector<size_t>& order,
                           const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder(shape, kF32, "X");
  std::vector<Expr> out;
  for (const size_t d : order) out.push_back(shape[d]);
  const te::Tensor y = te::compute(
      out,
      [&](const std::vector<Var>& i) {
        std::vector<Expr> at(i.size());
        for (size_t d = 0; d < order.size(); ++d) at[order[d]] = Expr(i[d]);
        return x.at(at);
      },
      "Y");
  return te::create_func("transpose", {x}, {y}, {.int_params = ints});
}

/// The sum, or the greatest, over the dimensions `reduced`.
inline Func open_reduction(const std::vector<Expr>& shape, const std::vector<size_t>& reduced, bool greatest,
                           const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder(shape, kF32, "X");
  std::vector<Expr> out;
  std::vector<te::ReduceAxis> axes;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (std::ranges::find(reduced, d) != reduced.end())
      axes.push_back(te::reduce_axis(shape[d], "k" + std::to_string(d)));
    else
      out.push_back(shape[d]);
  }
  const te::Tensor y = te::compute(
      out,
      [&](const std::vector<Var>& i) {
        std::vector<Expr> at;
        size_t next = 0, axis = 0;
        for (size_t d = 0; d < shape.size(); ++d)
          at.push_back(std::ranges::find(reduced, d) != reduced.end() ? Expr(axes[axis++]) : Expr(i[next++]));
        return greatest ? te::max(x.at(at), axes) : te::sum(x.at(at), axes);
      },
      "Y");
  return te::create_func("reduction", {x}, {y}, {.int_params = ints});
}

inline Func open_pool(const Expr& h, const Expr& w, int64_t channels, bool average, int64_t stride,
                      const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder({h, w, channels}, kF32, "X");
  const te::Tensor padded = te::pad(x, {1, 1, 0}, {1, 1, 0}, average ? float_imm(0) : te::lowest(kF32), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const auto out = [&](const Expr& e) { return simplify(floordiv(e - 1, Expr(stride)) + 1); };
  const te::Tensor y = te::compute(
      {out(h), out(w), channels},
      [&](const std::vector<Var>& i) {
        const Expr at = padded(i[0] * stride + kh, i[1] * stride + kw, Expr(i[2]));
        return average ? te::sum(at, {kh, kw}) : te::max(at, {kh, kw});
      },
      "Y");
  return te::create_func("pool", {x}, {y}, {.int_params = ints});
}

/// Rows of a table, by indices.
inline Func open_gather(const Expr& rows, const Expr& indices, const Expr& columns, const std::vector<IntParam>& ints) {
  const te::Tensor table = te::placeholder({rows, columns}, kF32, "table"),
                   ids = te::placeholder({indices}, kI64, "ids");
  const te::Tensor y = te::compute(
      {indices, columns},
      [&](const std::vector<Var>& i) { return table(max(Expr(0), min(ids(Expr(i[0])), rows - 1)), Expr(i[1])); }, "Y");
  return te::create_func("gather", {table, ids}, {y}, {.int_params = ints});
}

/// Two tensors, one behind the other along a dimension.
inline Func open_concat(std::vector<Expr> first, const Expr& more, size_t axis, const std::vector<IntParam>& ints) {
  std::vector<Expr> second = first, both = first;
  second[axis] = more;
  both[axis] = first[axis] + more;
  const te::Tensor a = te::placeholder(first, kF32, "A"), b = te::placeholder(second, kF32, "B");
  const te::Tensor y = te::compute(
      both,
      [&](const std::vector<Var>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        const Expr border = first[axis], x = at[axis];
        const Expr in_a = a.at(at);
        at[axis] = x - border;
        return select(lt(x, border), in_a, b.at(at));
      },
      "Y");
  return te::create_func("concat", {a, b}, {y}, {.int_params = ints});
}

inline Func open_pad(const std::vector<Expr>& shape, const std::vector<Expr>& around,
                     const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder(shape, kF32, "X");
  const te::Tensor y = te::pad(x, around, around, float_imm(7), "Y");
  return te::create_func("pad", {x}, {y}, {.int_params = ints});
}

/// Sums up to each element of the first dimension.
inline Func open_cumsum(const Expr& steps, const Expr& columns, const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder({steps, columns}, kF32, "X");
  const std::vector<te::Tensor> y = te::scan(
      steps, {columns}, [&](const std::vector<Var>& i) { return te::Body(x(Expr(0), Expr(i[0]))); },
      [&](const std::vector<te::Tensor>& states, const Expr& t, const std::vector<Var>& i) {
        return te::Body(states[0](t - 1, Expr(i[0])) + x(t, Expr(i[0])));
      },
      "Y");
  return te::create_func("cumsum", {x}, {y[0]}, {.int_params = ints});
}

inline Func open_argmax(const Expr& rows, const Expr& axis, const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder({rows, axis}, kF32, "X");
  const te::ReduceAxis k = te::reduce_axis(axis, "k");
  const std::vector<te::Tensor> y = te::compute_many(
      {rows}, [&](const std::vector<Var>& i) { return te::argmax(Expr(k), x(Expr(i[0]), k), {k}); }, "Y");
  return te::create_func("argmax", {x}, {y[0], y[1]}, {.int_params = ints});
}

/// The nearest pixel, twice as many each way.
inline Func open_resize(const Expr& h, const Expr& w, int64_t channels, const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder({h, w, channels}, kF32, "X");
  const te::Tensor y = te::compute(
      {h * 2, w * 2, channels},
      [&](const std::vector<Var>& i) { return x(floordiv(Expr(i[0]), 2), floordiv(Expr(i[1]), 2), Expr(i[2])); }, "Y");
  return te::create_func("resize", {x}, {y}, {.int_params = ints});
}

/// A transposed convolution of stride 2 whose windows do not overlap.
inline Func open_conv_transpose(const Expr& n, const Expr& h, const Expr& w, int64_t ic, int64_t oc,
                                const std::vector<IntParam>& ints) {
  const te::Tensor x = te::placeholder({n, h, w, ic}, kF32, "X"), weights = te::placeholder({ic, oc, 2, 2}, kF32, "W");
  const te::ReduceAxis c = te::reduce_axis(ic, "ic");
  const te::Tensor y = te::compute(
      {n, h * 2, w * 2, oc},
      [&](const std::vector<Var>& i) {
        return te::sum(x(Expr(i[0]), floordiv(Expr(i[1]), 2), floordiv(Expr(i[2]), 2), Expr(c)) *
                           weights(Expr(c), Expr(i[3]), floormod(Expr(i[1]), 2), floormod(Expr(i[2]), 2)),
                       {c});
      },
      "Y");
  return te::create_func("conv_transpose", {x, weights}, {y},
                         {.input_kinds = {ParamKind::kInput, ParamKind::kConstant}, .int_params = ints});
}

}  // namespace fettle::testing
