#include "cuda/default_subjects.h"

#include <fmt/format.h>

#include <cmath>

#include "base/check.h"
#include "ir/text.h"
#include "te/create_func.h"
#include "te/tensor.h"
#include "tune/space/space.h"

namespace fettle::bench {
namespace {

using Inputs = std::vector<std::vector<double>>;

constexpr double kBound = 0.95;  // of a copy

Func parsed(const std::string& loops) {
  const auto made = parse_loops(loops);
  FETTLE_CHECK_MSG(made.has_value(), made ? "" : made.error().to_string());
  return *made;
}

Subject moves(std::string name, const Func& func, double bytes,
              std::function<double(int64_t, const Inputs&)> reference) {
  Subject s;
  s.name = std::move(name);
  s.func = func;
  s.bytes = bytes;
  for (const Param& param : func->params)
    if (param.kind == ParamKind::kOutput) s.result = param.buffer->dtype;
  s.tolerance = s.result == kF32 ? 1e-4 : 4e-3;
  s.bound = kBound;
  s.reference = std::move(reference);
  return by_default(std::move(s));
}
Subject moves(std::string name, const std::string& loops, double bytes,
              std::function<double(int64_t, const Inputs&)> reference) {
  return moves(std::move(name), parsed(loops), bytes, std::move(reference));
}

double at(const std::vector<double>& values, int64_t place) { return values[static_cast<size_t>(place)]; }

// The default with these choices instead of its own.
Variant neighbour(const Func& func, const std::map<std::string, int64_t>& values) {
  std::string name;
  for (const auto& [choice, value] : values) name += fmt::format("{}{} {}", name.empty() ? "" : ", ", choice, value);
  return {name,
          [func, values](Schedule& s) -> Result<> {
            FETTLE_TRY(s, default_neighbour(func, std::make_shared<const Target>(*s.target()), 1, {.values = values}));
            return {};
          },
          {}};
}

Subject with(Subject subject, const std::vector<std::map<std::string, int64_t>>& neighbours) {
  for (const auto& values : neighbours) subject.variants.push_back(neighbour(subject.func, values));
  return subject;
}

using Indices = std::vector<Var>;

Func half_rows(int64_t rows, int64_t columns, bool softmax) {
  const te::Tensor x = te::placeholder({rows, columns}, kF16, "X");
  const te::ReduceAxis k = te::reduce_axis(columns, "k"), q = te::reduce_axis(columns, "q");
  const auto of = [&](const Expr& i, const Expr& j) { return cast(kF32, x(i, j)); };
  const te::Tensor m = te::compute(
      {rows}, [&](const Indices& i) { return softmax ? te::ordered_max(of(i[0], k), {k}) : te::sum(of(i[0], k), {k}); },
      "M");
  const auto centred = [&](const Expr& i, const Expr& j) {
    return of(i, j) - (softmax ? m(i) : m(i) * float_imm(1.0 / static_cast<double>(columns)));
  };
  const te::Tensor e = te::compute(
      {rows, columns},
      [&](const Indices& i) {
        const Expr x_m = centred(i[0], i[1]);
        return softmax ? math("exp", {x_m}) : x_m;
      },
      "E");
  const te::Tensor s = te::compute(
      {rows}, [&](const Indices& i) { return te::sum(softmax ? e(i[0], q) : e(i[0], q) * e(i[0], q), {q}); }, "S");
  const te::Tensor y = te::compute(
      {rows, columns},
      [&](const Indices& i) {
        const Expr scale = math("rsqrt", {s(i[0]) * float_imm(1.0 / static_cast<double>(columns)) + float_imm(1e-5)});
        return cast(kF16, softmax ? e(i[0], i[1]) / s(i[0]) : e(i[0], i[1]) * scale);
      },
      "Y");
  return te::create_func(softmax ? "softmax" : "layer_norm", {x}, {y});
}

double row_reference(const std::vector<double>& values, int64_t place, int64_t columns, bool softmax) {
  const double* x = values.data() + place / columns * columns;
  const double own = x[place % columns];
  double sum = 0, mean = 0;
  if (softmax) {
    const double most = *std::max_element(x, x + columns);
    for (int64_t j = 0; j < columns; ++j) sum += std::exp(x[j] - most);
    return std::exp(own - most) / sum;
  }
  for (int64_t j = 0; j < columns; ++j) mean += x[j] / static_cast<double>(columns);
  for (int64_t j = 0; j < columns; ++j) sum += (x[j] - mean) * (x[j] - mean) / static_cast<double>(columns);
  return (own - mean) / std::sqrt(sum + 1e-5);
}

// A window of 3 x 3 around each pixel, of [h, w, c] or [c, h, w]: the greatest element, or a sum weighed for each
// channel.
Func windows(int64_t h, int64_t w, int64_t c, bool channels_last, bool greatest) {
  const auto image = [&](const Expr& ch, const Expr& y, const Expr& x) {
    return channels_last ? std::vector<Expr>{y, x, ch} : std::vector<Expr>{ch, y, x};
  };
  const te::Tensor x = te::placeholder(image(c, h, w), kF32, "X"), weights = te::placeholder({3, 3, c}, kF32, "W");
  const te::Tensor padded =
      te::pad(x, image(0, 1, 1), image(0, 1, 1), greatest ? te::lowest(kF32) : float_imm(0), "padded");
  const te::ReduceAxis kh = te::reduce_axis(3, "kh"), kw = te::reduce_axis(3, "kw");
  const te::Tensor y = te::compute(
      image(c, h, w),
      [&](const Indices& i) {
        const Expr ch = channels_last ? i[2] : i[0], row = channels_last ? i[0] : i[1],
                   col = channels_last ? i[1] : i[2];
        const Expr read = padded.at(image(ch, row + kh, col + kw));
        return greatest ? te::max(read, {kh, kw}) : te::sum(read * weights(kh, kw, ch), {kh, kw});
      },
      "Y");
  return te::create_func("windows", greatest ? std::vector<te::Tensor>{x} : std::vector<te::Tensor>{x, weights}, {y});
}

// The place of each row's greatest element, the first of equal ones.
Func argmax_of_rows(int64_t rows, int64_t columns) {
  const te::Tensor x = te::placeholder({rows, columns}, kF32, "X");
  const te::ReduceAxis k = te::reduce_axis(columns, "k");
  const std::vector<te::Tensor> y =
      te::compute_many({rows}, [&](const Indices& i) { return te::argmax(cast(kF32, Expr(k)), x(i[0], k), {k}); }, "Y");
  return te::create_func("argmax", {x}, {y[0]});
}

Func cumulative_sum(int64_t rows, int64_t columns) {
  return parsed(
      fmt::format("X: f32[{0}, {1}]\nfor i in {0}: Y[i, 0] = X[i, 0]\n"
                  "for i in {0}: for k in {2}: Y[i, k + 1] = Y[i, k] + X[i, k + 1]",
                  rows, columns, columns - 1));
}

Subject window_subject(int64_t h, int64_t w, int64_t c, bool channels_last, bool greatest) {
  return moves(fmt::format("{} {} x {} x {}{}", greatest ? "max pooling" : "depthwise", h, w, c,
                           channels_last ? ", channels last" : ""),
               windows(h, w, c, channels_last, greatest), 8.0 * static_cast<double>(h * w * c),
               [=](int64_t place, const Inputs& in) {
                 const int64_t ch = channels_last ? place % c : place / (h * w);
                 const int64_t pixel = channels_last ? place / c : place % (h * w);
                 double result = greatest ? -INFINITY : 0;
                 for (int64_t kh = 0; kh < 3; ++kh)
                   for (int64_t kw = 0; kw < 3; ++kw) {
                     const int64_t y = pixel / w + kh - 1, x = pixel % w + kw - 1;
                     if (y < 0 || y >= h || x < 0 || x >= w) continue;
                     const double read = at(in[0], channels_last ? (y * w + x) * c + ch : (ch * h + y) * w + x);
                     result = greatest ? std::max(result, read) : result + read * at(in[1], (kh * 3 + kw) * c + ch);
                   }
                 return result;
               });
}

}  // namespace

Subject by_default(Subject subject) {
  subject.name = "default " + subject.name;
  subject.variants = {{"constructed",
                       [func = subject.func](Schedule& s) -> Result<> {
                         FETTLE_TRY(s, default_schedule(func, std::make_shared<const Target>(*s.target()), 1));
                         return {};
                       },
                       {}}};
  return subject;
}

std::vector<Subject> default_moves() {
  constexpr int64_t n = 8192, kRows = 65536, kColumns = 1024, kLong = 16384, kWide = 4096;
  constexpr double kArray = 4.0 * n * n;  // bytes
  static_assert(kRows * kColumns == n * n && kLong * kWide == n * n);
  std::vector<Subject> all;
  all.push_back(moves(fmt::format("elementwise {0} x {0}", n),
                      fmt::format("X: f32[{0}, {0}]\nB: f32[{0}]\nfor i in {0}: for j in {0}: "
                                  "Y[i, j] = max(X[i, j] * 2.0 + B[j], 0.0)",
                                  n),
                      2 * kArray,
                      [](int64_t i, const Inputs& in) { return std::max(at(in[0], i) * 2 + at(in[1], i % n), 0.0); }));
  all.push_back(moves(fmt::format("squares {0} x {0}", n - 1),
                      fmt::format("X: f32[{0}, {0}]\nfor i in {0}: for j in {0}: Y[i, j] = X[i, j] * X[i, j]", n - 1),
                      8.0 * (n - 1) * (n - 1),
                      [](int64_t i, const Inputs& in) { return at(in[0], i) * at(in[0], i); }));
  all.push_back(moves(fmt::format("transpose {0} x {0}", n),
                      fmt::format("X: f32[{0}, {0}]\nfor i in {0}: for j in {0}: Y[i, j] = X[j, i]", n), 2 * kArray,
                      [](int64_t i, const Inputs& in) { return at(in[0], i % n * n + i / n); }));
  all.push_back(moves(fmt::format("sums of rows {} x {}", kRows, kColumns),
                      fmt::format("X: f32[{0}, {1}]\nfor i in {0}: for k in {1}: Y[i] += X[i, k]", kRows, kColumns),
                      kArray, [](int64_t i, const Inputs& in) {
                        double sum = 0;
                        for (int64_t k = 0; k < kColumns; ++k) sum += at(in[0], i * kColumns + k);
                        return sum;
                      }));
  all.push_back(moves(fmt::format("sums of columns {} x {}", kLong, kWide),
                      fmt::format("X: f32[{1}, {0}]\nfor j in {0}: for k in {1}: Y[j] += X[k, j]", kWide, kLong),
                      kArray, [](int64_t j, const Inputs& in) {
                        double sum = 0;
                        for (int64_t k = 0; k < kLong; ++k) sum += at(in[0], k * kWide + j);
                        return sum;
                      }));
  all.push_back(moves(fmt::format("sum of all {}", n * n),
                      fmt::format("X: f32[{0}]\nfor k in {0}: Y[0] += X[k]", n * n), kArray,
                      [](int64_t, const Inputs& in) {
                        double sum = 0;
                        for (const double x : in[0]) sum += x;
                        return sum;
                      }));
  all.push_back(
      moves(fmt::format("gather {} rows of {}", kRows, kColumns),
            fmt::format(
                "T: f32[{0}, {1}]\nI: i64[{0}]\nfor i in {0}: for j in {1}: Y[i, j] = T[max(0, min(I[i], {0} - 1)), j]",
                kRows, kColumns),
            2 * kArray, [](int64_t i, const Inputs& in) {
              return at(in[0], static_cast<int64_t>(at(in[1], i / kColumns)) * kColumns + i % kColumns);
            }));
  constexpr int64_t kHalfRows = 2 * n * n / kWide, kHalves = 2 * n;
  for (const bool softmax : {true, false})
    all.push_back(moves(fmt::format("f16 {} {} x {}", softmax ? "softmax" : "layer norm", kHalfRows, kWide),
                        half_rows(kHalfRows, kWide, softmax), 2 * kArray,
                        [softmax](int64_t i, const Inputs& in) { return row_reference(in[0], i, kWide, softmax); }));
  all.push_back(moves(
      fmt::format("f16 transpose {} x {}", n, kHalves),
      fmt::format("X: f16[{1}, {0}]\nY: f16[{0}, {1}]\nfor i in {0}: for j in {1}: Y[i, j] = X[j, i]", n, kHalves),
      2 * kArray, [](int64_t i, const Inputs& in) { return at(in[0], i % kHalves * n + i / kHalves); }));
  all.push_back(moves(fmt::format("concatenation {} x {}", kRows, kColumns),
                      fmt::format("A: f32[{0}, {2}]\nB: f32[{0}, {2}]\nfor i in {0}: for j in {1}: "
                                  "Y[i, j] = select(j < {2}, A[i, j], B[i, j - {2}])",
                                  kRows, kColumns, kColumns / 2),
                      2 * kArray, [](int64_t i, const Inputs& in) {
                        const int64_t half = kColumns / 2, column = i % kColumns;
                        return at(in[column < half ? 0 : 1], i / kColumns * half + column % half);
                      }));
  for (const bool greatest : {true, false})
    for (const bool channels_last : {true, false})
      all.push_back(window_subject(1024, 1024, 64, channels_last, greatest));
  all.push_back(moves(fmt::format("argmax of rows {} x {}", kRows, kColumns), argmax_of_rows(kRows, kColumns), kArray,
                      [](int64_t i, const Inputs& in) {
                        const auto row = in[0].begin() + i * kColumns;
                        return static_cast<double>(std::max_element(row, row + kColumns) - row);
                      }));
  all.push_back(moves(fmt::format("cumulative sum {} x {}", kRows, kColumns), cumulative_sum(kRows, kColumns),
                      2 * kArray, [](int64_t i, const Inputs& in) {
                        double sum = 0;
                        for (int64_t k = i / kColumns * kColumns; k <= i; ++k) sum += at(in[0], k);
                        return sum;
                      }));
  const std::map<std::string, std::vector<std::map<std::string, int64_t>>> neighbours = {
      {"default elementwise", {{{"turns", 1}}, {{"turns", 4}}, {{"threads", 128}}, {{"threads", 512}}}},
      {"default squares", {{{"turns", 1}}, {{"turns", 4}}, {{"threads", 512}}}},
      {"default transpose",
       {{{"tile", 32}, {"turns", 8}},
        {{"tile", 64}, {"turns", 4}},
        {{"tile", 64}, {"turns", 8}},
        {{"tile", 64}, {"turns", 16}}}},
      {"default f16 transpose", {{{"tile", 32}}, {{"turns", 8}}, {{"turns", 4}}}},
      {"default sums of columns",
       {{{"lanes", 1}}, {{"parts", 32}}, {{"parts", 128}}, {{"threads", 64}}, {{"threads", 256}}}},
      {"default gather", {{{"turns", 1}}, {{"turns", 4}}}}};
  for (Subject& subject : all)
    for (const auto& [name, others] : neighbours)
      if (subject.name.starts_with(name)) subject = with(std::move(subject), others);
  return all;
}

}  // namespace fettle::bench
