// Signals: windows, Fourier transforms, mel weights.

#include <cmath>

#include <fmt/format.h>

#include "graph/ops/fast_fourier.h"
#include "graph/ops/padding.h"
#include "graph/passes/data_axes.h"

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

/// How the numbers of a transform turn.
struct Turn {
  Dim n;                 // turns a step of a full turn
  bool inverse = false;  // backwards, and over n
  bool halved = false;   // of those that have a mirror image one half is there, which counts twice
};
/// cos(2πjk/n), and the sine, less than zero where the turn is forward: [rows, columns], for j < rows and k < columns.
struct Tables {
  Value *cosines, *sines;
};

/// Of known extents they are constants; else the numbers of one turn, each where it belongs. E608.
Result<Tables> tables(Lowering& g, const Node& node, const Dim& rows, const Dim& columns, const Turn& turn,
                      DType dtype) {
  const double sign = turn.inverse ? 1 : -1;
  if (rows.is_number() && columns.is_number() && turn.n.is_number()) {
    const int64_t n = turn.n.value(), height = rows.value(), width = columns.value();
    if (height > kMaxTable / std::max<int64_t>(width, 1))
      return fail(ErrorCode::E608, fmt::format("a Fourier transform of {} numbers to {}", height, width), node.name);
    const auto table = [&](double (*function)(double), double times) -> Result<Value*> {
      std::vector<double> once, all;
      for (int64_t k = 0; k < n; ++k)
        once.push_back(times * function(2 * M_PI * static_cast<double>(k) / static_cast<double>(n)));
      for (int64_t j = 0; j < height; ++j)
        for (int64_t k = 0; k < width; ++k)
          all.push_back(once[static_cast<size_t>(j * k % n)] * (turn.halved && j > 0 && 2 * j != n ? 2 : 1));
      FETTLE_TRY(ConstantTensor made, to_tensor(all, dtype, {height, width}));
      return g.constant(std::move(made));
    };
    const double times = turn.inverse ? 1 / static_cast<double>(n) : 1;
    FETTLE_TRY(Value * cosines, table([](double x) { return std::cos(x); }, times));
    FETTLE_TRY(Value * sines, table([](double x) { return std::sin(x); }, sign * times));
    return Tables{cosines, sines};
  }
  Value* n = g.size(max(turn.n, 1));
  const auto number = [&](double value) { return g.number(value, kF64); };
  Value *j = g.unsqueeze(g.iota(rows), {1}), *k = g.unsqueeze(g.iota(columns), {0});
  Value* place = g("Mod", {g("Mul", {j, k}), n});
  Value* angles = g("Div", {g("Mul", {g.cast(g.iota(turn.n), kF64), number(2 * M_PI)}), g.cast(n, kF64)});
  Value* times = turn.inverse ? g("Div", {number(1), g.cast(n, kF64)}) : number(1);
  if (turn.halved) {
    Value* is_alone = g("Or", {g("Equal", {j, g.index(0)}), g("Equal", {g("Add", {j, j}), n})});
    times = g("Mul", {times, g("Where", {is_alone, number(1), number(2)})});
  }
  const auto table = [&](std::string_view function, double by) {
    Value* once = g("Mul", {g(function, {angles}), number(by)});
    return g.cast(g("Mul", {g("Gather", {once, place}), times}), dtype);
  };
  Value* cosines = table("Cos", 1);
  return Tables{cosines, table("Sin", sign)};
}

// A number is real, or has two parts.
Result<> check_parts(const Node& node, const Dim& parts) {
  if (!parts.is_number())
    return not_known(node,
                     fmt::format("{}: the last extent, {}, must be fixed: 1 or 2", node.op->name, parts.to_string()));
  if (parts.value() == 1 || parts.value() == 2) return {};
  return bad_types(node, fmt::format("the last extent is {}, not 1 or 2", parts.value()));
}

// The extent is cut off, or filled with zeros.
Value* with_extent(Lowering& g, Value* x, int64_t axis, const Dim& extent) {
  const Dim& old = x->shape()[static_cast<size_t>(axis)];
  if (old == extent) return x;
  Attrs pads;
  pads.set("pads", dims_attr({Dim(0), extent - old}));  // which may be negative
  pads.set("axes", std::vector<int64_t>{axis});
  return g("Pad", {x}, std::move(pads));
}

// A parameter that is one integer, if only as a size.
Result<std::optional<Dim>> one_dim(const Node& node, size_t input, std::string_view attr) {
  FETTLE_TRY(const auto dims, dims_param(node, input, attr));
  if (!dims) return std::nullopt;
  if (dims->size() != 1) return bad_attribute(node, fmt::format("{} must be one number", attr));
  return dims->front();
}

Result<> check_positive(const Node& node, const Dim& dim, std::string_view what) {
  if (dim.max() < 1) return bad_attribute(node, fmt::format("{} of {}", what, dim.to_string()));
  note_not_negative(node, dim - 1, fmt::format("{}, less one", what));
  return {};
}

/// Numbers of one or two parts times the tables.
Complex turned(Lowering& g, const std::vector<Value*>& parts, const Tables& t) {
  const auto times = [&](Value* x, Value* table) { return g("MatMul", {x, table}); };
  Complex y{times(parts[0], t.cosines), times(parts[0], t.sines)};
  if (parts.size() == 2) {
    y.real = g("Sub", {y.real, times(parts[1], t.sines)});
    y.imaginary = g("Add", {y.imaginary, times(parts[1], t.cosines)});
  }
  return y;
}

// Of the first half of a spectrum [.., n / 2 + 1], whose other half is its mirror image, all of it.
Complex mirrored(Lowering& g, const Complex& half, int64_t n) {
  const auto last = static_cast<int64_t>(half.real->shape().size()) - 1;
  const auto whole = [&](Value* part, bool is_imaginary) {
    Value* image = reversed(g, g.slice(part, last, 1, n - n / 2), {last});
    if (is_imaginary) image = g("Neg", {image});
    return g("Concat", {part, image}, {{{"axis", last}}});
  };
  return {whole(half.real, false), half.imaginary ? whole(half.imaginary, true) : nullptr};
}

// Parts [.., n], or of half a spectrum, transformed to so many numbers: n, the first half of them, or real ones. E608.
Result<Complex> transformed_fast(Lowering& g, const Node& node, const std::vector<Value*>& parts, int64_t n,
                                 int64_t written, const Turn& turn) {
  if (n > kMostTransformed)
    return fail(ErrorCode::E608, fmt::format("a Fourier transform of {} numbers", n), node.name);
  Complex x{parts[0], parts.size() == 2 ? parts[1] : nullptr};
  if (turn.halved) x = mirrored(g, x, n);
  Complex y = fast_fourier(g, x, n, turn.inverse);
  const auto finished = [&](Value* part) {
    part = g.slice(part, static_cast<int64_t>(part->shape().size()) - 1, 0, written);
    return turn.inverse ? g("Mul", {part, g.number(1 / static_cast<double>(n), part->dtype())}) : part;
  };
  return Complex{finished(y.real), finished(y.imaginary)};
}

// x [… n … 1 or 2] transformed along the axis
Result<Value*> transformed(Lowering& g, const Node& node, Value* x, int64_t axis) {
  const auto rank = static_cast<int64_t>(x->shape().size());
  const bool inverse = node.attrs.get_int("inverse", 0) != 0, one_sided = node.attrs.get_int("onesided", 0) != 0;
  const Dim parts = x->shape().back();
  FETTLE_TRY(const auto given_length, one_dim(node, 1, "dft_length"));
  const Dim extent = x->shape()[static_cast<size_t>(axis)];
  const bool to_real = inverse && one_sided;
  const Dim n = given_length ? *given_length : to_real ? 2 * (extent - 1) : extent;
  FETTLE_TRY_VOID(check_positive(node, n, "a length"));
  // From one half of a spectrum, the other is its mirror image.
  const Dim half = floordiv(n, 2) + 1, read = to_real ? half : n, written = one_sided && !inverse ? half : n;
  // [… n … part] → [part, …, n]
  std::vector<int64_t> perm{rank - 1};
  for (int64_t d = 0; d + 1 < rank; ++d)
    if (d != axis) perm.push_back(d);
  perm.push_back(axis);
  x = g.transpose(with_extent(g, x, axis, read), perm);
  std::vector<Value*> of_x;
  for (int64_t k = 0; k < parts.value(); ++k) of_x.push_back(g.slice(x, 0, k, k + 1));
  const Turn turn{n, inverse, to_real};
  Complex made;
  if (n.is_number() && n.value() > kMostDirect) {
    FETTLE_TRY(made, transformed_fast(g, node, of_x, n.value(), written.value(), turn));
  } else {
    FETTLE_TRY(const Tables t, tables(g, node, read, written, turn, x->dtype()));
    made = turned(g, of_x, t);
  }
  Value* y = to_real ? made.real : g("Concat", {made.real, made.imaginary}, {{{"axis", int64_t{0}}}});
  std::vector<int64_t> back(static_cast<size_t>(rank));
  for (size_t d = 0; d < perm.size(); ++d) back[static_cast<size_t>(perm[d])] = static_cast<int64_t>(d);
  return g.transpose(y, back);
}

// (x [… n … 1 or 2], length, axis)
Values fourier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  const int64_t rank = rank_of(node, 0);
  Value* x = node.inputs[0];
  FETTLE_TRY_VOID(check_parts(node, x->shape().back()));
  if (!passes::lacks_content(node)) {
    FETTLE_TRY(const auto given, int_param(node, 2, "axis"));
    FETTLE_TRY(const int64_t axis, positive_axis(node, given.value_or(-2), rank));
    if (axis == rank - 1) return bad_attribute(node, "the axis is that of real and imaginary parts");
    FETTLE_TRY(Value * y, transformed(g, node, x, axis));
    return std::vector{y};
  }
  // Where data tell the axis: [before, n, after, parts], and back.
  const passes::DataAxes axes = passes::data_axes(g, node, 2, rank);
  g.require_all(g("Less", {axes.places, g.index(rank - 1)}),
                fmt::format("DFT \"{}\": the axis is that of real and imaginary parts", node.name));
  Value* flat = passes::around_axis(g, axes, x);
  FETTLE_TRY_VOID(g.status());
  const Dim parts = x->shape().back();
  const Shape around = flat->shape();
  FETTLE_TRY(Value * y,
             transformed(g, node, g.reshape(flat, {around[0], around[1], floordiv(around[2], parts), parts}), 1));
  FETTLE_TRY_VOID(g.status());
  Value* is_axis = g.cast(g.slice(axes.mask, 0, 0, rank - 1), kBool);
  Value* kept = g.slice(g("Shape", {x}), 0, 0, rank - 1);
  Value* extents = g("Where", {is_axis, g.size(y->shape()[1]), kept});
  return std::vector{
      g.reshape_by_data(y, g("Concat", {extents, g.ints({y->shape()[3].value()})}, {{{"axis", int64_t{0}}}}))};
}

// (signal [batch, length, 1 or 2], step, window, frame length): the frames' transforms. Of known extents they are one
// convolution, whose weights are cosines and sines, cut out by the window. Else frames are gathered and multiplied.
Values short_time_fourier(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 3));
  FETTLE_TRY(const auto step, one_dim(node, 1, "frame_step"));
  FETTLE_TRY(const auto given, one_dim(node, 3, "frame_length"));
  Value *x = node.inputs[0], *window = node.input(2);
  if (x->rank() == 2) x = g.unsqueeze(x, {2});
  FETTLE_TRY_VOID(check_parts(node, x->shape()[2]));
  const int64_t parts = x->shape()[2].value();
  if (window) FETTLE_TRY_VOID(check_rank(node, 2, 1, 1));
  if (!step || (!given && !window)) return bad_attribute(node, "the step or the length of frames is missing");
  const Dim n = given ? *given : window->shape()[0];
  FETTLE_TRY_VOID(check_positive(node, *step, "a step"));
  FETTLE_TRY_VOID(check_positive(node, n, "a length of frames"));
  const bool one_sided = node.attrs.get_int("onesided", 1) != 0 && parts == 1;
  const Dim written = one_sided ? floordiv(n, 2) + 1 : n;
  FETTLE_TRY(const Tables t, tables(g, node, n, written, {n}, x->dtype()));
  if (step->is_number() && n.is_number()) {
    // [real and imaginary results, parts of the signal, frame]
    Value *c = g.unsqueeze(g.transpose(t.cosines, {1, 0}), {1}), *s = g.unsqueeze(g.transpose(t.sines, {1, 0}), {1});
    const auto joined_parts = [&](Value* first, Value* second, int64_t axis) {
      return g("Concat", {first, second}, {{{"axis", axis}}});
    };
    Value* w =
        parts == 1 ? joined_parts(c, s, 0) : joined_parts(joined_parts(c, g("Neg", {s}), 1), joined_parts(s, c, 1), 0);
    if (window) w = g("Mul", {w, window});
    Value* y = g("Conv", {g.transpose(x, {0, 2, 1}), w}, {{{"strides", std::vector<int64_t>{step->value()}}}});
    y = g.reshape(y, {y->shape()[0], 2, written, y->shape()[2]});
    return std::vector{g.transpose(y, {0, 3, 2, 1})};
  }
  const Dim room = x->shape()[1] - n;
  note_not_negative(node, room, "a frame in the signal");
  Value* begins = g("Mul", {g.iota(max(floordiv(room, *step) + 1, 0)), g.size(*step)});
  Value* places = g("Add", {g.unsqueeze(begins, {1}), g.iota(n)});
  Value* frames = g("Gather", {x, places}, {{{"axis", int64_t{1}}}});  // [batch, frames, n, parts]
  std::vector<Value*> of_frames;
  for (int64_t k = 0; k < parts; ++k) {
    Value* part = g("Squeeze", {g.slice(frames, 3, k, k + 1)}, {{{"axes", std::vector<int64_t>{3}}}});
    of_frames.push_back(window ? g("Mul", {part, window}) : part);
  }
  const Complex y = turned(g, of_frames, t);
  return std::vector{g("Concat", {g.unsqueeze(y.real, {3}), g.unsqueeze(y.imaginary, {3})}, {{{"axis", int64_t{3}}}})};
}

// (bins, transform's length, sample rate, lowest and highest frequency): triangles that overlap, at equal distances in
// mel, as ONNX's reference places them.
Values mel_weights(Lowering& g, const Node& node) {
  FETTLE_TRY(const auto given_bins, one_dim(node, 0, "num_mel_bins"));
  FETTLE_TRY(const auto given_length, one_dim(node, 1, "dft_length"));
  if (!given_bins || !given_length) return bad_attribute(node, "an input is missing");
  const Dim &bins = *given_bins, &length = *given_length;
  FETTLE_TRY_VOID(check_positive(node, bins, "a number of bins"));
  FETTLE_TRY_VOID(check_positive(node, length, "a length"));
  for (const size_t i : {2, 3, 4})
    note_equal(node, element_count(shape_of(node, i)), 1, "a rate or a frequency is one number");
  const auto given = [&](size_t i) { return g.cast(g.reshape(node.inputs[i], {}), kF64); };
  const auto number = [&](double value) { return g.number(value, kF64); };
  const auto whole = [&](const Dim& dim) { return g.cast(g.size(dim), kF64); };
  const double per_log = 2595 / std::log(10);  // mel = 2595 log10(1 + hertz / 700)
  const auto mel = [&](Value* hertz) {
    return g("Mul", {g("Log", {g("Add", {g("Div", {hertz, number(700)}), number(1)})}), number(per_log)});
  };
  Value* low = mel(given(3));
  Value* step = g("Div", {g("Sub", {mel(given(4)), low}), whole(bins + 2)});
  Value* mels = g("Add", {g("Mul", {g.cast(g.iota(bins + 2), kF64), step}), low});
  Value* hertz = g("Mul", {g("Sub", {g("Exp", {g("Div", {mels, number(per_log)})}), number(1)}), number(700)});
  Value* places = g.cast(g("Floor", {g("Div", {g("Mul", {whole(length + 1), hertz}), given(2)})}), kI64);
  const Dim n_spectrum = floordiv(length, 2) + 1;
  g.require_all(g("And", {g("GreaterOrEqual", {places, g.index(0)}), g("Less", {places, g.size(n_spectrum)})}),
                fmt::format("MelWeightMatrix \"{}\": a frequency is beyond half of the sample rate", node.name));
  // Of each bin: where its triangle begins, has its peak and ends.
  const auto corner = [&](int64_t k) { return g.unsqueeze(g.slice(places, 0, k, bins + k), {0}); };
  Value *left = corner(0), *centre = corner(1), *right = corner(2), *j = g.unsqueeze(g.iota(n_spectrum), {1});
  const auto part = [&](Value* from, Value* to, Value* of) {
    Value* width = g("Max", {of, g.index(1)});
    return g("Div", {g.cast(g("Sub", {to, from}), kF64), g.cast(width, kF64)});
  };
  Value* rises = g("And", {g("GreaterOrEqual", {j, left}), g("Less", {j, centre})});
  Value* falls = g("And", {g("GreaterOrEqual", {j, centre}), g("Less", {j, right})});
  Value* is_peak = g("Equal", {j, centre});
  Value* y = g("Where", {falls, part(j, right, g("Sub", {right, centre})), g.cast(is_peak, kF64)});
  y = g("Where", {rises, part(left, j, g("Sub", {centre, left})), y});
  FETTLE_TRY(const DType dtype, output_type(node));
  return std::vector{g.cast(y, dtype)};
}

constexpr ParamInput size_param[] = {{0, "size", kDims}};
constexpr ParamInput dft_params[] = {{1, "dft_length", kDims}, {2, "axis", kInt}};
constexpr ParamInput stft_params[] = {{1, "frame_step", kDims}, {3, "frame_length", kDims}};
constexpr ParamInput mel_params[] = {{0, "num_mel_bins", kDims}, {1, "dft_length", kDims}};
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
