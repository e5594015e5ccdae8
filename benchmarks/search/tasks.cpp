#include "search/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/random.h"
#include "te/create_func.h"
#include "te/tensor.h"

namespace fettle::bench {
namespace {

using Indices = std::vector<Var>;
using Shape = std::vector<Expr>;

Expr exp(Expr x) { return math("exp", {std::move(x)}); }
Expr sqrt(Expr x) { return math("sqrt", {std::move(x)}); }

bool is_odd(std::initializer_list<int64_t> extents) {
  for (const int64_t extent : extents)
    if (extent % 16 != 0) return true;
  return false;
}

SearchTask matmul(int64_t batch, int64_t m, int64_t n, int64_t k) {
  const bool many = batch > 1;
  const auto of = [&](int64_t rows, int64_t columns) {
    return many ? Shape{batch, rows, columns} : Shape{rows, columns};
  };
  const te::Tensor a = te::placeholder(of(m, k), kF32, "A"), b = te::placeholder(of(k, n), kF32, "B");
  const te::ReduceAxis r = te::reduce_axis(k, "k");
  const te::Tensor c = te::compute(
      of(m, n),
      [&](const Indices& i) {
        return many ? te::sum(a(i[0], i[1], r) * b(i[0], r, i[2]), {r}) : te::sum(a(i[0], r) * b(r, i[1]), {r});
      },
      "C", many ? std::vector<std::string>{"b", "i", "j"} : std::vector<std::string>{"i", "j"});
  const ParamKind right = many ? ParamKind::kInput : ParamKind::kConstant;
  return {.name = many ? fmt::format("batched matmul {} x {}x{}x{}", batch, m, n, k)
                       : fmt::format("matmul {}x{}x{}", m, n, k),
          .family = many ? "batched matmul" : "matmul",
          .odd = is_odd({m, n, k}),
          .flops = 2.0 * static_cast<double>(batch) * static_cast<double>(m) * static_cast<double>(n) *
                   static_cast<double>(k),
          .op = "matmul",
          .numbers = {{"batch", batch}, {"m", m}, {"n", n}, {"k", k}},
          .program = te::create_func("matmul", {a, b}, {c}, {.input_kinds = {ParamKind::kInput, right}})};
}

struct Conv {
  int64_t size, ic, oc, kernel;
  int64_t stride = 1, dilation = 1, groups = 1;
  int64_t padding() const { return dilation * (kernel / 2); }
  int64_t out() const { return (size + 2 * padding() - dilation * (kernel - 1) - 1) / stride + 1; }
};

// Bias and relu follow, as they do in models.
SearchTask conv(const Conv& p) {
  const int64_t pad = p.padding(), out = p.out(), ic = p.ic / p.groups;
  const bool depthwise = p.groups == p.ic && p.groups == p.oc;
  const te::Tensor x = te::placeholder({p.size, p.size, p.ic}, kF32, "X");
  const te::Tensor w =
      te::placeholder(depthwise ? Shape{p.kernel, p.kernel, p.oc} : Shape{p.kernel, p.kernel, ic, p.oc}, kF32, "W");
  const te::Tensor bias = te::placeholder({p.oc}, kF32, "bias");
  const te::Tensor padded = pad > 0 ? te::pad(x, {pad, pad, 0}, {pad, pad, 0}, float_imm(0), "padded") : x;
  const te::ReduceAxis kh = te::reduce_axis(p.kernel, "kh"), kw = te::reduce_axis(p.kernel, "kw"),
                       c = te::reduce_axis(ic, "ic");
  const te::Tensor sum =
      te::compute({out, out, p.oc},
                  [&](const Indices& i) {
                    const Expr h = i[0] * p.stride + kh * p.dilation, v = i[1] * p.stride + kw * p.dilation;
                    if (depthwise) return te::sum(padded(h, v, i[2]) * w(kh, kw, i[2]), {kh, kw});
                    const Expr channel = p.groups > 1 ? floordiv(i[2], p.oc / p.groups) * ic + c : Expr(c);
                    if (p.kernel == 1)
                      return te::sum(padded(i[0] * p.stride, i[1] * p.stride, channel) * w(0, 0, c, i[2]), {c});
                    return te::sum(padded(h, v, channel) * w(kh, kw, c, i[2]), {kh, kw, c});
                  },
                  "O", {"h", "w", "c"});
  const te::Tensor y = te::compute(
      {out, out, p.oc}, [&](const Indices& i) { return max(sum(i) + bias(i[2]), float_imm(0)); }, "Y", {"h", "w", "c"});
  std::string kind = depthwise ? "depthwise" : p.groups > 1 ? "grouped conv" : p.dilation > 1 ? "dilated conv" : "conv";
  if (p.stride > 1) kind += fmt::format("/{}", p.stride);
  return {.name = fmt::format("{} {}x{} {}x{} {}-{}", kind, p.kernel, p.kernel, p.size, p.size, p.ic, p.oc),
          .family = depthwise       ? "depthwise"
                    : p.kernel == 1 ? "conv1x1"
                    : p.groups > 1  ? "grouped conv"
                                    : "conv",
          .odd = is_odd({p.size, p.ic, p.oc}),
          .flops = 2.0 * static_cast<double>(out * out * p.oc) * static_cast<double>(ic * p.kernel * p.kernel),
          .op = "conv",
          .numbers = {{"size", p.size},
                      {"ic", p.ic},
                      {"oc", p.oc},
                      {"kernel", p.kernel},
                      {"stride", p.stride},
                      {"dilation", p.dilation},
                      {"groups", p.groups}},
          .program = te::create_func("conv", {x, w, bias}, {y},
                                     {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}})};
}

SearchTask pool(int64_t size, int64_t channels, int64_t kernel, int64_t stride) {
  const te::Tensor x = te::placeholder({size, size, channels}, kF32, "X");
  const te::ReduceAxis kh = te::reduce_axis(kernel, "kh"), kw = te::reduce_axis(kernel, "kw");
  const int64_t out = (size - kernel) / stride + 1;
  const te::Tensor y =
      te::compute({out, out, channels},
                  [&](const Indices& i) { return te::max(x(i[0] * stride + kh, i[1] * stride + kw, i[2]), {kh, kw}); },
                  "Y", {"h", "w", "c"});
  return {.name = fmt::format("max pool {}x{}/{} {}x{} {}", kernel, kernel, stride, size, size, channels),
          .family = "pool",
          .odd = is_odd({size, channels}),
          .op = "pool",
          .numbers = {{"size", size}, {"channels", channels}, {"kernel", kernel}, {"stride", stride}},
          .program = te::create_func("pool", {x}, {y})};
}

SearchTask softmax(int64_t rows, int64_t n) {
  const te::Tensor x = te::placeholder({rows, n}, kF32, "X");
  const te::ReduceAxis k = te::reduce_axis(n, "k"), l = te::reduce_axis(n, "l");
  const te::Tensor m =
      te::compute({rows}, [&](const Indices& i) { return te::ordered_max(x(i[0], k), {k}); }, "M", {"i"});
  const te::Tensor e = te::compute({rows, n}, [&](const Indices& i) { return exp(x(i) - m(i[0])); }, "E", {"i", "j"});
  const te::Tensor s = te::compute({rows}, [&](const Indices& i) { return te::sum(e(i[0], l), {l}); }, "S", {"i"});
  const te::Tensor y = te::compute({rows, n}, [&](const Indices& i) { return e(i) / s(i[0]); }, "Y", {"i", "j"});
  return {.name = fmt::format("softmax {}x{}", rows, n),
          .family = "softmax",
          .odd = is_odd({rows, n}),
          .op = "softmax",
          .numbers = {{"rows", rows}, {"n", n}},
          .program = te::create_func("softmax", {x}, {y})};
}

SearchTask layer_norm(int64_t rows, int64_t n) {
  const te::Tensor x = te::placeholder({rows, n}, kF32, "X"), g = te::placeholder({n}, kF32, "G"),
                   b = te::placeholder({n}, kF32, "B");
  const te::ReduceAxis k = te::reduce_axis(n, "k"), l = te::reduce_axis(n, "l");
  const double share = 1.0 / static_cast<double>(n);
  const te::Tensor m = te::compute({rows}, [&](const Indices& i) { return te::sum(x(i[0], k), {k}); }, "M", {"i"});
  const te::Tensor v = te::compute({rows},
                                   [&](const Indices& i) {
                                     const Expr d = x(i[0], l) - m(i[0]) * float_imm(share);
                                     return te::sum(d * d, {l});
                                   },
                                   "V", {"i"});
  const te::Tensor y = te::compute({rows, n},
                                   [&](const Indices& i) {
                                     const Expr d = x(i) - m(i[0]) * float_imm(share);
                                     return d / sqrt(v(i[0]) * float_imm(share) + float_imm(1e-5)) * g(i[1]) + b(i[1]);
                                   },
                                   "Y", {"i", "j"});
  return {.name = fmt::format("layer norm {}x{}", rows, n),
          .family = "layer norm",
          .odd = is_odd({rows, n}),
          .op = "layer_norm",
          .numbers = {{"rows", rows}, {"n", n}},
          .program = te::create_func("layer_norm", {x, g, b}, {y},
                                     {.input_kinds = {ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}})};
}

// softmax(Q Kᵀ) V for each head.
SearchTask attention(int64_t heads, int64_t n, int64_t d) {
  const te::Tensor q = te::placeholder({heads, n, d}, kF32, "Q"), k = te::placeholder({heads, n, d}, kF32, "K"),
                   v = te::placeholder({heads, n, d}, kF32, "V");
  const te::ReduceAxis c = te::reduce_axis(d, "c"), j1 = te::reduce_axis(n, "j1"), j2 = te::reduce_axis(n, "j2"),
                       j3 = te::reduce_axis(n, "j3");
  const te::Tensor s =
      te::compute({heads, n, n}, [&](const Indices& i) { return te::sum(q(i[0], i[1], c) * k(i[0], i[2], c), {c}); },
                  "S", {"h", "i", "j"});
  const te::Tensor m = te::compute(
      {heads, n}, [&](const Indices& i) { return te::ordered_max(s(i[0], i[1], j1), {j1}); }, "M", {"h", "i"});
  const te::Tensor e =
      te::compute({heads, n, n}, [&](const Indices& i) { return exp(s(i) - m(i[0], i[1])); }, "E", {"h", "i", "j"});
  const te::Tensor t =
      te::compute({heads, n}, [&](const Indices& i) { return te::sum(e(i[0], i[1], j2), {j2}); }, "T", {"h", "i"});
  const te::Tensor p =
      te::compute({heads, n, n}, [&](const Indices& i) { return e(i) / t(i[0], i[1]); }, "P", {"h", "i", "j"});
  const te::Tensor y =
      te::compute({heads, n, d}, [&](const Indices& i) { return te::sum(p(i[0], i[1], j3) * v(i[0], j3, i[2]), {j3}); },
                  "Y", {"h", "i", "c"});
  return {.name = fmt::format("attention {} x {}x{}", heads, n, d),
          .family = "attention",
          .odd = is_odd({n, d}),
          .flops = 4.0 * static_cast<double>(heads * n) * static_cast<double>(n * d),
          .op = "attention",
          .numbers = {{"heads", heads}, {"n", n}, {"d", d}},
          .program = te::create_func("attention", {q, k, v}, {y})};
}

// relu(x * s + b) + r, then a sigmoid weight: one pass over memory.
SearchTask elementwise(int64_t rows, int64_t n) {
  const te::Tensor x = te::placeholder({rows, n}, kF32, "X"), r = te::placeholder({rows, n}, kF32, "R"),
                   s = te::placeholder({n}, kF32, "S"), b = te::placeholder({n}, kF32, "B");
  const te::Tensor scaled =
      te::compute({rows, n}, [&](const Indices& i) { return x(i) * s(i[1]) + b(i[1]); }, "scaled", {"i", "j"});
  const te::Tensor added = te::compute({rows, n}, [&](const Indices& i) { return max(scaled(i), float_imm(0)) + r(i); },
                                       "added", {"i", "j"});
  const te::Tensor y =
      te::compute({rows, n}, [&](const Indices& i) { return added(i) / (float_imm(1) + exp(float_imm(0) - added(i))); },
                  "Y", {"i", "j"});
  return {.name = fmt::format("elementwise {}x{}", rows, n),
          .family = "elementwise",
          .odd = is_odd({rows, n}),
          .op = "elementwise",
          .numbers = {{"rows", rows}, {"n", n}},
          .program = te::create_func(
              "elementwise", {x, r, s, b}, {y},
              {.input_kinds = {ParamKind::kInput, ParamKind::kInput, ParamKind::kConstant, ParamKind::kConstant}})};
}

/// Draws shapes as models have them: small ones as likely as large ones, half of the extents multiples of 16. What runs
/// longer than some milliseconds is left out.
class TaskDraws {
 public:
  /// Between both, its logarithm uniform; every other a multiple of `grain`.
  int64_t extent(int64_t least, int64_t most, int64_t grain = 16) {
    const double log = std::log(static_cast<double>(most) / static_cast<double>(least)) * stream_.uniform();
    const auto drawn = static_cast<int64_t>(std::lround(static_cast<double>(least) * std::exp(log)));
    return stream_.uniform() < 0.5 ? std::max(least, drawn / grain * grain) : drawn;
  }

  SearchTask product() {
    return within([&] {
      const int64_t m = extent(8, 1024), n = extent(32, 4096), k = extent(32, 4096);
      return matmul(1, m, n, k);
    });
  }
  SearchTask batched_product() {
    return within([&] {
      const int64_t batch = extent(2, 16, 1), m = extent(16, 256), n = extent(16, 256), k = extent(16, 128);
      return matmul(batch, m, n, k);
    });
  }
  SearchTask convolution(int64_t kernel) {
    return within([&] {
      const int64_t stride = stream_.uniform() < 0.25 ? 2 : 1;
      return conv({extent(7, 80, 7), extent(16, 512), extent(16, 512), kernel, stride});
    });
  }
  // The first layer of a network.
  SearchTask picture() {
    return within([&] {
      const int64_t kernel = one_of({3, 5, 7}), stride = one_of({1, 2});
      return conv({extent(32, 224), one_of({1, 3, 4}), extent(16, 64), kernel, stride});
    });
  }
  // Groups, or dilated.
  SearchTask grouped() {
    return within([&]() -> SearchTask {
      const int64_t size = extent(7, 40, 7);
      if (stream_.uniform() < 0.4) {
        const int64_t ic = extent(16, 192);
        return conv({size, ic, extent(16, 192), 3, 1, 2});
      }
      const int64_t groups = one_of({2, 4, 8}), ic = groups * extent(8, 64, 8);
      return conv({.size = size, .ic = ic, .oc = ic, .kernel = 3, .groups = groups});
    });
  }
  SearchTask depthwise() {
    return within([&] {
      const int64_t channels = extent(16, 512), kernel = one_of({3, 3, 5, 7}), stride = one_of({1, 1, 2});
      return conv({extent(7, 112, 7), channels, channels, kernel, stride, 1, channels});
    });
  }
  SearchTask pooling() {
    return within([&] {
      const int64_t size = extent(12, 112, 7), channels = extent(16, 256), kernel = one_of({2, 3}),
                    stride = one_of({1, 2});
      return pool(size, channels, kernel, stride);
    });
  }
  SearchTask rows(SearchTask (*make)(int64_t rows, int64_t n)) {
    const int64_t rows = extent(16, 1024), n = extent(32, 2048);
    return make(rows, n);
  }
  SearchTask attention_heads() {
    const int64_t heads = extent(2, 16, 1), n = extent(16, 200), d = extent(16, 96);
    return attention(heads, n, d);
  }

 private:
  static constexpr double kMostFlops = 4e8;

  int64_t one_of(std::initializer_list<int64_t> values) { return values.begin()[stream_.below(values.size())]; }

  template <class Draw>
  SearchTask within(Draw draw) {
    for (;;)
      if (SearchTask task = draw(); task.flops <= kMostFlops) return task;
  }

  RandomStream stream_{20};
};

}  // namespace

const std::vector<SearchTask>& search_tasks() {
  static const std::vector<SearchTask> tasks = {
      matmul(1, 512, 512, 512),
      matmul(1, 197, 768, 768),
      matmul(1, 40, 6625, 120),
      matmul(12, 128, 128, 64),
      matmul(6, 77, 77, 50),
      conv({.size = 56, .ic = 64, .oc = 256, .kernel = 1}),
      conv({.size = 19, .ic = 60, .oc = 120, .kernel = 1}),
      conv({.size = 56, .ic = 64, .oc = 64, .kernel = 3}),
      conv({.size = 27, .ic = 60, .oc = 90, .kernel = 3}),
      conv({.size = 224, .ic = 3, .oc = 64, .kernel = 7, .stride = 2}),
      conv({.size = 57, .ic = 48, .oc = 100, .kernel = 3, .stride = 2}),
      conv({.size = 32, .ic = 128, .oc = 128, .kernel = 3, .dilation = 2}),
      conv({.size = 32, .ic = 128, .oc = 128, .kernel = 3, .groups = 4}),
      conv({.size = 112, .ic = 96, .oc = 96, .kernel = 3, .groups = 96}),
      conv({.size = 27, .ic = 120, .oc = 120, .kernel = 5, .groups = 120}),
      pool(112, 64, 3, 2),
      pool(55, 30, 2, 2),
      softmax(1536, 128),
      softmax(197, 1001),
      layer_norm(128, 768),
      layer_norm(197, 770),
      attention(12, 128, 64),
      attention(3, 77, 50),
      elementwise(1024, 1024),
      elementwise(197, 3077),
  };
  return tasks;
}

const std::vector<SearchTask>& training_tasks() {
  static const std::vector<SearchTask> tasks = [] {
    TaskDraws draws;
    std::vector<SearchTask> result;
    std::set<std::string> names;
    for (const SearchTask& task : search_tasks()) names.insert(task.name);
    const auto add = [&](int count, auto&& draw) {
      while (count > 0)
        if (SearchTask task = draw(); names.insert(task.name).second) {
          result.push_back(std::move(task));
          --count;
        }
    };
    add(48, [&] { return draws.product(); });
    add(20, [&] { return draws.batched_product(); });
    add(32, [&] { return draws.convolution(1); });
    add(44, [&] { return draws.convolution(3); });
    add(12, [&] { return draws.picture(); });
    add(12, [&] { return draws.grouped(); });
    add(28, [&] { return draws.depthwise(); });
    add(14, [&] { return draws.pooling(); });
    add(16, [&] { return draws.rows(softmax); });
    add(16, [&] { return draws.rows(layer_norm); });
    add(12, [&] { return draws.attention_heads(); });
    add(8, [&] { return draws.rows(elementwise); });
    return result;
  }();
  return tasks;
}

}  // namespace fettle::bench
