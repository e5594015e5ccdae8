// Signals: windows, Fourier transforms, mel weights.

#include <cmath>

#include <fmt/format.h>

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;
using Values = Result<std::vector<Value*>>;

Result<DType> output_type(const Node& node) {
  const int64_t code = node.attrs.get_int("output_datatype", 1);
  if (const auto dtype = element_type(code)) return *dtype;
  return fail(ErrorCode::E603, fmt::format("{} of element type {}", node.op->name, code), node.name);
}

// --- windows: a - b cos(2πk/N) + c cos(4πk/N), N the size, or one less where the window is not periodic

struct Cosines {
  double a, b, c;
};
constexpr Cosines kHann{0.5, 0.5, 0}, kHamming{25.0 / 46, 21.0 / 46, 0}, kBlackman{0.42, 0.5, 0.08};

Types window_type(const Node& node) {
  FETTLE_TRY(const auto size, dims_param(node, 0, "size"));
  if (!size || size->size() != 1) return bad_attribute(node, "the size is not one number");
  if (size->front().max() < 0) return bad_attribute(node, "the size is negative");
  note_not_negative(node, size->front(), "the size");
  FETTLE_TRY(const DType dtype, output_type(node));
  return one_type(dtype, {size->front()});
}
template <const Cosines& W>
Tensors window(const Node& node, std::span<const te::Tensor>) {
  const DType dtype = output_dtype(node), work = dtype.is_float() ? dtype : kF32;
  const Dim turn = output_shape(node)[0] - (node.attrs.get_int("periodic", 1) ? 0 : 1);
  return one(map_output(node, [&](const Indices& i) {
    const auto number = [&](double value) { return constant(value, work); };
    const Expr angle = number(2 * M_PI) * cast(work, i[0]) / cast(work, divisor_expr(turn));
    Expr value = number(W.a) - number(W.b) * math("cos", {angle});
    if (W.c != 0) value = value + number(W.c) * math("cos", {number(2) * angle});
    return cast(dtype, value);
  }));
}

// --- DFT: products with tables of cosines and sines

constexpr int64_t kMaxTable = int64_t{1} << 26;

/// cos(2πjk/n) or sin, times `factor`: [rows, columns].
Result<ConstantTensor> table(const Node& node, double (*function)(double), int64_t rows, int64_t columns, int64_t n,
                             double factor, DType dtype) {
  if (rows > kMaxTable / std::max<int64_t>(columns, 1))
    return fail(ErrorCode::E608, fmt::format("a Fourier transform of {} numbers to {}", rows, columns), node.name);
  std::vector<double> turn, all;
  for (int64_t k = 0; k < n; ++k)
    turn.push_back(factor * function(2 * M_PI * static_cast<double>(k) / static_cast<double>(n)));
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t k = 0; k < columns; ++k) all.push_back(turn[static_cast<size_t>(j * k % n)]);
  return to_tensor(all, dtype, {rows, columns});
}
double cosine(double x) { return std::cos(x); }
double sine(double x) { return std::sin(x); }

// A number is real, or has two parts.
Result<> check_parts(const Node& node, const Dim& parts) {
  if (!parts.is_number())
    return not_known(node,
                     fmt::format("{}: the last extent, {}, must be fixed: 1 or 2", node.op->name, parts.to_string()));
  if (parts.value() == 1 || parts.value() == 2) return {};
  return bad_types(node, fmt::format("the last extent is {}, not 1 or 2", parts.value()));
}

// The extent is cut off, or filled with zeros.
Value* with_extent(Lowering& g, Value* x, int64_t axis, int64_t extent) {
  const Dim& old = x->shape()[static_cast<size_t>(axis)];
  if (old == Dim(extent)) return x;
  Attrs pads;
  pads.set("pads", dims_attr({Dim(0), extent - old}));  // which may be negative
  pads.set("axes", std::vector<int64_t>{axis});
  return g("Pad", {x}, std::move(pads));
}

// (x [… n … 1 or 2], length, axis)
Values fourier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  const int64_t rank = rank_of(node, 0);
  FETTLE_TRY(const auto given_axis, int_param(node, 2, "axis"));
  FETTLE_TRY(const int64_t axis, positive_axis(node, given_axis.value_or(-2), rank));
  if (axis == rank - 1) return bad_attribute(node, "the axis is that of real and imaginary parts");
  const bool inverse = node.attrs.get_int("inverse", 0) != 0, one_sided = node.attrs.get_int("onesided", 0) != 0;
  const Dim& parts = shape_of(node, 0).back();
  FETTLE_TRY_VOID(check_parts(node, parts));
  FETTLE_TRY(const auto given_length, int_param(node, 1, "dft_length"));
  const Dim& extent = shape_of(node, 0)[static_cast<size_t>(axis)];
  if (!given_length && !extent.is_number())
    return not_known(node, "DFT needs its length when the model is compiled: the extent of its axis, or dft_length");
  const bool to_real = inverse && one_sided;
  const int64_t n = given_length ? *given_length : to_real ? 2 * (extent.value() - 1) : extent.value();
  if (n < 1) return bad_attribute(node, fmt::format("a length of {}", n));
  // From one half of a spectrum, the other is its mirror image.
  const int64_t read = to_real ? n / 2 + 1 : n, written = one_sided && !inverse ? n / 2 + 1 : n;
  // [… n … part] → [part, …, n]
  std::vector<int64_t> perm{rank - 1};
  for (int64_t d = 0; d + 1 < rank; ++d)
    if (d != axis) perm.push_back(d);
  perm.push_back(axis);
  Value* x = g.transpose(with_extent(g, node.inputs[0], axis, read), perm);
  const DType dtype = x->dtype();
  const double factor = inverse ? 1 / static_cast<double>(n) : 1;
  FETTLE_TRY(ConstantTensor cosines, table(node, cosine, read, written, n, factor, dtype));
  FETTLE_TRY(ConstantTensor sines, table(node, sine, read, written, n, inverse ? factor : -factor, dtype));
  if (to_real) {  // what has a mirror image counts twice
    for (ConstantTensor* t : {&cosines, &sines}) {
      std::vector<double> values = to_doubles(*t);
      for (int64_t j = 1; j < read; ++j)
        for (int64_t k = 0; k < written && 2 * j != n; ++k) values[static_cast<size_t>(j * written + k)] *= 2;
      FETTLE_TRY(*t, to_tensor(values, dtype, t->shape));
    }
  }
  Value *c = g.constant(std::move(cosines)), *s = g.constant(std::move(sines));
  const auto part = [&](int64_t k) { return g.slice(x, 0, k, k + 1); };
  Value *real = g("MatMul", {part(0), c}), *imaginary = g("MatMul", {part(0), s});
  if (parts.value() == 2) {
    real = g("Sub", {real, g("MatMul", {part(1), s})});
    imaginary = g("Add", {imaginary, g("MatMul", {part(1), c})});
  }
  Value* y = to_real ? real : g("Concat", {real, imaginary}, {{{"axis", int64_t{0}}}});
  std::vector<int64_t> back(static_cast<size_t>(rank));
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  return std::vector{g.transpose(y, back)};
}

// (signal [batch, length, 1 or 2], step, window, frame length): the frames' transforms, as one convolution whose
// weights are cosines and sines, cut out by the window.
Values short_time_fourier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 3));
  FETTLE_TRY(const auto step, int_param(node, 1, "frame_step"));
  FETTLE_TRY(const auto given, int_param(node, 3, "frame_length"));
  Value *x = node.inputs[0], *window = node.input(2);
  if (x->rank() == 2) x = g.unsqueeze(x, {2});
  const Dim& parts = x->shape()[2];
  FETTLE_TRY_VOID(check_parts(node, parts));
  if (window) FETTLE_TRY_VOID(check_rank(node, 2, 1, 1));
  if (!given && !(window && window->shape()[0].is_number()))
    return not_known(node, "STFT needs the frames' length when the model is compiled: frame_length, or the window's");
  const int64_t n = given ? *given : window->shape()[0].value();
  if (!step || *step < 1 || n < 1) return bad_attribute(node, "the step or the length of frames is less than one");
  const bool one_sided = node.attrs.get_int("onesided", 1) != 0 && parts.value() == 1;
  const int64_t written = one_sided ? n / 2 + 1 : n;
  const DType dtype = x->dtype();
  FETTLE_TRY(const ConstantTensor cosines, table(node, cosine, written, n, n, 1, dtype));
  FETTLE_TRY(const ConstantTensor sines, table(node, sine, written, n, n, 1, dtype));
  // [real and imaginary results, parts of the signal, frame]: (a + bi)(cos - i sin)
  std::vector<double> weights;
  const std::vector<double> c = to_doubles(cosines), s = to_doubles(sines);
  for (int64_t result = 0; result < 2; ++result)
    for (int64_t k = 0; k < written; ++k)
      for (int64_t p = 0; p < parts.value(); ++p)
        for (int64_t j = 0; j < n; ++j) {
          const auto at = static_cast<size_t>(k * n + j);
          weights.push_back(result == p ? c[at] : result == 0 ? s[at] : -s[at]);
        }
  FETTLE_TRY(ConstantTensor table, to_tensor(weights, dtype, {2 * written, parts.value(), n}));
  Value* w = g.constant(std::move(table));
  if (window) w = g("Mul", {w, window});
  Value* y = g("Conv", {g.transpose(x, {0, 2, 1}), w}, {{{"strides", std::vector<int64_t>{*step}}}});
  y = g.reshape(y, {y->shape()[0], 2, written, y->shape()[2]});
  return std::vector{g.transpose(y, {0, 3, 2, 1})};
}

// (bins, transform's length, sample rate, lowest and highest frequency): triangles that overlap, at equal distances in
// mel, as ONNX's reference places them.
Values mel_weights(Lowering& g, const Node& node) {
  double given[5];
  for (size_t i = 0; i < 5; ++i) {
    const Value& value = *node.inputs[i];
    if (!value.is_constant() || value.constant->n_elems() != 1)
      return not_known(node, fmt::format("MelWeightMatrix needs input \"{}\" when the model is compiled", value.name));
    given[i] = value.constant->at(0);
  }
  const auto n_bins = static_cast<int64_t>(given[0]), length = static_cast<int64_t>(given[1]);
  const double rate = given[2];
  if (n_bins < 1 || length < 1 || rate <= 0 || n_bins > kMaxTable / (length / 2 + 1))
    return bad_attribute(node, fmt::format("{} bins of {} numbers", n_bins, length));
  const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
  const double low = mel(given[3]), step = (mel(given[4]) - low) / static_cast<double>(n_bins + 2);
  const int64_t n_spectrum = length / 2 + 1;
  std::vector<int64_t> places;
  for (int64_t k = 0; k < n_bins + 2; ++k) {
    const double hertz = 700 * (std::pow(10, (static_cast<double>(k) * step + low) / 2595) - 1);
    places.push_back(static_cast<int64_t>(std::floor(static_cast<double>(length + 1) * hertz / rate)));
    if (places.back() < 0 || places.back() >= n_spectrum)
      return bad_attribute(node, "a frequency is beyond half of the sample rate");
  }
  std::vector<double> weights(static_cast<size_t>(n_spectrum * n_bins));
  const auto at = [&](int64_t j, int64_t bin) -> double& { return weights[static_cast<size_t>(j * n_bins + bin)]; };
  for (int64_t bin = 0; bin < n_bins; ++bin) {
    const auto k = static_cast<size_t>(bin);
    const int64_t left = places[k], centre = places[k + 1], right = places[k + 2];
    if (left == centre) at(centre, bin) = 1;
    for (int64_t j = left; left < centre && j <= centre; ++j)
      at(j, bin) = static_cast<double>(j - left) / static_cast<double>(centre - left);
    for (int64_t j = centre; j < right; ++j)
      at(j, bin) = static_cast<double>(right - j) / static_cast<double>(right - centre);
  }
  FETTLE_TRY(const DType dtype, output_type(node));
  FETTLE_TRY(ConstantTensor made, to_tensor(weights, dtype, {n_spectrum, n_bins}));
  return std::vector{g.constant(std::move(made))};
}

constexpr ParamInput size_param[] = {{0, "size", kDims}};
constexpr ParamInput dft_params[] = {{1, "dft_length", kInt}, {2, "axis", kInt}};
constexpr ParamInput stft_params[] = {{1, "frame_step", kInt}, {3, "frame_length", kInt}};
constexpr ParamInput mel_params[] = {{0, "num_mel_bins", kInt},
                                     {1, "dft_length", kInt},
                                     {2, "sample_rate", kInt},
                                     {3, "lower_edge_hertz", kFloat},
                                     {4, "upper_edge_hertz", kFloat}};
constexpr OpDef window_op(std::string_view name, Compute compute) {
  return define(kInjective, name, {0, 1}, window_type, compute, {.params = size_param});
}
constexpr OpDef signal_defs[] = {
    window_op("HannWindow", window<kHann>),
    window_op("HammingWindow", window<kHamming>),
    window_op("BlackmanWindow", window<kBlackman>),
    composite<fourier>("DFT", {1, 3}, 1, dft_params),
    composite<short_time_fourier>("STFT", {2, 4}, 1, stft_params),
    composite<mel_weights>("MelWeightMatrix", 5, 1, mel_params),
};

}  // namespace

extern constinit const OpFamily signal_ops{"signal", signal_defs};

}  // namespace fettle
