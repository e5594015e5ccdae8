// Random numbers. UniformNumbers makes them; others stand for what ONNX has: RandomNormal, RandomUniform, their Like
// forms, Bernoulli, Multinomial, and Dropout in training mode.

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <numbers>

#include "base/hash.h"
#include "graph/late_sizes.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;
using Values = Result<std::vector<Value*>>;

// --- UniformNumbers(number of the call, or none) {shape, key, dtype}: of [0, 1). Of Fettle's own.
//
// Element i of call c is a hash of key + c * kCallStep + i * kStep: SplitMix64 (Steele, Lea, Flood: Fast splittable
// pseudorandom number generators, OOPSLA 2014, with the constants of Stafford's variant 13). An element depends on
// nothing else, so threads, tiles and fusion change no number. Its rounds use what comes in only twice: the ten rounds
// of Philox, written out as an expression, would be a thousand times as large.

constexpr uint64_t kStep = 0x9e3779b97f4a7c15, kCallStep = 0xd1342543de82ef95;

Expr whole(uint64_t value) { return int_imm(static_cast<int64_t>(value), kU64); }

Expr hashed(Expr x) {
  const auto mixed = [](const Expr& y, uint64_t by) {
    return binary(BinaryOp::kBitXor, y, binary(BinaryOp::kShr, y, whole(by)));
  };
  x = mixed(x, 30) * whole(0xbf58476d1ce4e5b9);
  x = mixed(x, 27) * whole(0x94d049bb133111eb);
  return mixed(x, 31);
}

Types uniform_type(const Node& node) {
  const auto dtype = element_type(node.attrs.get_int("dtype", 0));
  if (dtype != kF32 && dtype != kF64) return bad_attribute(node, "dtype is neither f32 nor f64");
  if (has_input(node, 0)) FETTLE_TRY_VOID(check_type(node, node.input(0), "the number of the call", {kI64, {}}));
  return one_type(*dtype, dims_of_attr(node, "shape"));
}

Tensors uniform_numbers(const Node& node, std::span<const te::Tensor> in) {
  const Shape& shape = output_shape(node);
  const bool is_single = output_dtype(node) == kF32;
  Expr start = whole(static_cast<uint64_t>(node.attrs.get_int("key", 0)));
  if (has_tensor(in, 0)) start = start + cast(kU64, scalar_of(in[0])) * whole(kCallStep);
  return one(map_output(node, [&](const Indices& i) {
    Expr place = 0;
    for (size_t d = 0; d < i.size(); ++d) place = place * size_expr(shape[d]) + i[d];
    const Expr bits = hashed(start + cast(kU64, place) * whole(kStep));
    // As many of the highest bits as the type's numbers below 1 have.
    if (is_single) return cast(kF32, cast(kI32, binary(BinaryOp::kShr, bits, whole(40)))) * constant(0x1p-24, kF32);
    return cast(kF64, cast(kI64, binary(BinaryOp::kShr, bits, whole(11)))) * constant(0x1p-53, kF64);
  }));
}

// --- what others are made of

/// The random numbers of a node whose last input, where its seed isn't stated, is the number of the call.
class Stream {
 public:
  Stream(Lowering& g, const Node& node) : g_(g) {
    if (node.attrs.has("stream") && !node.attrs.has("seed") && !node.inputs.empty()) calls_ = node.inputs.back();
    const auto seed = static_cast<uint64_t>(std::bit_cast<int64_t>(node.attrs.get_float("seed", 0)));
    key_ = hash_combine(seed, static_cast<uint64_t>(node.attrs.get_int("stream", 0)));
  }

  /// Of [0, 1); independent of those that it gave before.
  Value* uniform(const Shape& shape, DType dtype) {
    key_ = hash_combine(key_, kStep);
    Attrs attrs{{{"dtype", onnx_number(dtype)}, {"key", static_cast<int64_t>(key_)}}};
    attrs.set("shape", dims_attr(shape));
    return g_("UniformNumbers", calls_ ? std::vector{calls_} : std::vector<Value*>{}, std::move(attrs));
  }

  /// Of mean 0 and deviation 1, by Box and Muller.
  Value* normal(const Shape& shape, DType dtype) {
    Value* rest = g_("Sub", {g_.number(1, dtype), uniform(shape, dtype)});  // of (0, 1], whose logarithm there is
    Value* radius = g_("Sqrt", {g_("Mul", {g_("Log", {rest}), g_.number(-2, dtype)})});
    Value* angle = g_("Mul", {uniform(shape, dtype), g_.number(2 * std::numbers::pi, dtype)});
    return g_("Mul", {radius, g_("Cos", {angle})});
  }

 private:
  Lowering& g_;
  Value* calls_ = nullptr;
  uint64_t key_;
};

/// Numbers of this type are drawn as those of another.
DType drawn_as(DType dtype) { return dtype == kF64 ? kF64 : kF32; }

/// The type that the attribute `dtype` states, or `otherwise`.
Result<DType> stated_type(const Node& node, DType otherwise) {
  if (!node.attrs.has("dtype")) return otherwise;
  const auto dtype = element_type(node.attrs.get_int("dtype", 0));
  if (!dtype) return bad_attribute(node, "dtype is not supported");
  return *dtype;
}

template <bool IsNormal>
Values drawn(Lowering& g, const Node& node, const Shape& shape, DType otherwise) {
  FETTLE_TRY(const DType dtype, stated_type(node, otherwise));
  if (!dtype.is_float()) return bad_attribute(node, "dtype is no floating-point type");
  const DType as = drawn_as(dtype);
  Stream stream(g, node);
  Value* x = IsNormal ? stream.normal(shape, as) : stream.uniform(shape, as);
  const double first = IsNormal ? node.attrs.get_float("mean", 0) : node.attrs.get_float("low", 0);
  const double width =
      IsNormal ? node.attrs.get_float("scale", 1) : node.attrs.get_float("high", 1) - node.attrs.get_float("low", 0);
  if (width != 1) x = g("Mul", {x, g.number(width, as)});
  if (first != 0) x = g("Add", {x, g.number(first, as)});
  return std::vector{g.cast(x, dtype)};
}

template <bool IsNormal>
Values of_shape(Lowering& g, const Node& node) {
  Shape shape;
  for (const int64_t extent : node.attrs.get_ints("shape")) {
    if (extent < 0) return bad_attribute(node, "an extent is negative");
    shape.emplace_back(extent);
  }
  if (!node.attrs.has("shape")) return bad_attribute(node, "no shape is given");
  return drawn<IsNormal>(g, node, shape, kF32);
}

template <bool IsNormal>
Values like(Lowering& g, const Node& node) {
  return drawn<IsNormal>(g, node, shape_of(node, 0), dtype_of(node, 0));
}

// Known before it is lowered: StableHLO types its nodes as they are made.
Types like_type(const Node& node) {
  FETTLE_TRY(const DType dtype, stated_type(node, dtype_of(node, 0)));
  return one_type(dtype, shape_of(node, 0));
}
constexpr OpDef of_known_type(OpDef def) {
  def.infer = like_type;
  return def;
}

// 1 where a number is below the probability.
Values bernoulli(Lowering& g, const Node& node) {
  if (!dtype_of(node, 0).is_float()) return bad_types(node, "probabilities are no floating-point numbers");
  FETTLE_TRY(const DType dtype, stated_type(node, dtype_of(node, 0)));
  const DType as = drawn_as(dtype_of(node, 0));
  Value* numbers = Stream(g, node).uniform(shape_of(node, 0), as);
  return std::vector{g.cast(g("Less", {numbers, g.cast(node.inputs[0], as)}), dtype)};
}

// The number of classes, but the last, whose probabilities and those before have a sum not above the number.
Values multinomial(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2, 2));
  if (!dtype_of(node, 0).is_float())
    return bad_types(node, "logarithms of probabilities are no floating-point numbers");
  FETTLE_TRY(const DType dtype, stated_type(node, kI32));
  if (dtype != kI32 && dtype != kI64) return bad_attribute(node, "dtype is neither i32 nor i64");
  const int64_t samples = node.attrs.get_int("sample_size", 1);
  if (samples < 1) return bad_attribute(node, "sample_size is not positive");
  note_not_negative(node, shape_of(node, 0)[1] - 1, "classes but one");
  const DType as = drawn_as(dtype_of(node, 0));
  Value* likely = g("Softmax", {g.cast(node.inputs[0], as)}, {{{"axis", int64_t{1}}}});
  Value* sums = g.slice(g("CumSum", {likely}, {{{"axis", int64_t{1}}}}), 1, 0, -1);
  Value* numbers = Stream(g, node).uniform({shape_of(node, 0)[0], samples}, as);
  Value* below = g("LessOrEqual", {g.unsqueeze(sums, {1}), g.unsqueeze(numbers, {2})});
  return std::vector{g.reduce("ReduceSum", g.cast(below, dtype), {2}, false)};
}

// (x, ratio, whether the model is trained) → (y, what is kept)
// y is x / (1 - ratio) where a number is not below the ratio, else 0.
Values training_dropout(Lowering& g, const Node& node) {
  Value* x = node.inputs[0];
  if (!x->dtype().is_float()) return bad_types(node, "x is no floating-point number");
  for (const size_t i : {size_t{1}, size_t{2}})
    if (!may_equal(element_count(shape_of(node, i)), 1))
      return bad_types(node, fmt::format("{} is not one element", i == 1 ? "ratio" : "training_mode"));
  if (!dtype_of(node, 2).is_bool()) return bad_types(node, "training_mode is no truth value");
  const DType as = drawn_as(x->dtype());
  Value* ratio = g.reshape(g.cast(node.inputs[1], as), {});
  Value* idle = g("Not", {g.reshape(node.inputs[2], {})});
  Value* kept = g("LessOrEqual", {ratio, Stream(g, node).uniform(x->shape(), as)});
  kept = g("Or", {kept, idle});
  Value* factor = g("Where", {idle, g.number(1, as), g("Reciprocal", {g("Sub", {g.number(1, as), ratio})})});
  Value* y = g.cast(g("Where", {kept, g("Mul", {g.cast(x, as), factor}), g.number(0, as)}), x->dtype());
  const bool is_numeric = node.attrs.get_int("numeric_mask", 0) != 0;  // before opset 10
  return std::vector{y, is_numeric ? g.cast(kept, x->dtype()) : kept};
}

// A last input is the number of the call.
constexpr OpDef random_defs[] = {
    define(kInjective, "UniformNumbers", {0, 1}, uniform_type, uniform_numbers),
    composite<of_shape<true>>("RandomNormal", {0, 1}),
    composite<of_shape<false>>("RandomUniform", {0, 1}),
    of_known_type(composite<like<true>>("RandomNormalLike", {1, 2})),
    of_known_type(composite<like<false>>("RandomUniformLike", {1, 2})),
    composite<bernoulli>("Bernoulli", {1, 2}),
    composite<multinomial>("Multinomial", {1, 2}),
    composite<training_dropout>("TrainingDropout", {3, 4}, 2),  // Fettle's own
};

}  // namespace

extern constinit const OpFamily random_ops{"random", random_defs};

}  // namespace fettle
