// Products of what was dequantised become products of bytes, of which one form is left: u8 by i8, without zero points.

#include <cmath>
#include <limits>

#include "graph/op_util.h"
#include "graph/passes/fold_node.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/small_types.h"

namespace fettle::passes {
namespace {

// DequantizeLinear or QuantizeLinear of bytes, in single precision, without blocks.
struct Quantization {
  Node* node;
  Value *scale, *zero;  // zero: may be null
  int64_t axis;         // where there is not one scale for all
  bool is_plain;        // one scale and one zero point

  Value* bytes() const { return is(node, "DequantizeLinear") ? node->input(0) : node->output(); }
};

std::optional<Quantization> quantization(Node* node) {
  if (!is(node, "DequantizeLinear") && !is(node, "QuantizeLinear")) return {};
  const bool dequantizes = is(node, "DequantizeLinear");
  const Value *bytes = dequantizes ? node->input(0) : node->output(),
              *floats = dequantizes ? node->output() : node->input(0);
  Value *scale = node->input(1), *zero = node->input(2);
  if (!is_byte(bytes->dtype()) || floats->dtype() != kF32 || scale->dtype() != kF32 ||
      node->attrs.get_int("block_size", 0) != 0 || node->attrs.get_int("precision", 0) != 0)
    return {};
  const auto is_one = [](const Value* v) {
    return std::ranges::all_of(v->shape(), [](const Dim& d) { return d == Dim(1); });
  };
  const int64_t axis = node->attrs.get_int("axis", 1);
  return Quantization{node, scale, zero, axis < 0 ? axis + bytes->rank() : axis,
                      is_one(scale) && (!zero || is_one(zero))};
}
std::optional<Quantization> dequantized(const Value* value) {
  Node* node = value ? made_by(value, "DequantizeLinear") : nullptr;
  return node ? quantization(node) : std::nullopt;
}

bool is_zero(const Value* value) {
  return !value ||
         (value->is_constant() && std::ranges::all_of(to_doubles(*value->constant), [](double x) { return x == 0; }));
}
bool same_constant(const Value* a, const Value* b) {
  if (a == b) return true;
  if (!a || !b) return is_zero(a) && is_zero(b);
  return a->is_constant() && b->is_constant() && a->dtype() == b->dtype() && a->constant->n_elems() == 1 &&
         b->constant->n_elems() == 1 && a->constant->at(0) == b->constant->at(0);
}
bool is_positive(const Value* scale) {
  const auto number = as_scalar(scale);
  constexpr double kGreatest = 0x1p100;  // times a byte it is finite
  return number && *number >= static_cast<double>(std::numeric_limits<float>::min()) && *number <= kGreatest;
}
bool alike(const Quantization& a, const Quantization& b) {
  return a.is_plain && b.is_plain && a.bytes()->dtype() == b.bytes()->dtype() && same_constant(a.scale, b.scale) &&
         is_positive(a.scale) && same_constant(a.zero, b.zero);
}

// --- bytes stay bytes where they are only moved, or compared

// Elements of the first input go out as they are, none from elsewhere.
bool moves_only(const Node* node) {
  constexpr std::string_view kNames[] = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose",    "Slice",
                                         "Split",   "Expand",  "Tile",    "Gather",    "DepthToSpace", "SpaceToDepth"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return is(node, name); });
}

// f(dequantised(x)) → dequantised(f(x)); of scales along an axis for transposes alone
bool move_bytes(Graph& graph, Node* node, const Quantization& q) {
  if (graph.is_output(q.node->output())) return false;
  Attrs attrs = q.node->attrs;
  if (!q.is_plain) {
    if (!is(node, "Transpose") || q.scale->rank() != 1 || (q.zero && q.zero->rank() != 1)) return false;
    const std::vector<int64_t> perm = permutation(node);
    attrs.set("axis", static_cast<int64_t>(std::ranges::find(perm, q.axis) - perm.begin()));
  }
  const bool is_pool = is(node, "MaxPool") && node->outputs.size() == 1 && is_positive(q.scale);
  if (!is_pool && !moves_only(node)) return false;
  for (size_t i = 1; i < node->inputs.size(); ++i)
    if (node->inputs[i] == node->inputs[0]) return false;
  Node* moved = graph.add_node(node->op, node->outputs[0]->name, node->inputs, node->attrs, {}, node->outputs.size());
  graph.set_input(moved, 0, q.bytes());
  moved->provenance = node->provenance;
  for (size_t i = 0; i < node->outputs.size(); ++i)
    moved->outputs[i]->type = TensorType{q.bytes()->dtype(), node->outputs[i]->shape()};
  if (node->outputs.size() == 1)
    return replace_with(graph, node, "DequantizeLinear", {moved->output(), q.scale, q.zero}, attrs);
  std::vector<std::pair<Value*, Value*>> uses;
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    const Node* made = insert(graph, node, "DequantizeLinear", {moved->output(i), q.scale, q.zero}, attrs);
    if (!made) return false;
    uses.emplace_back(node->outputs[i], made->output());
  }
  graph.replace_uses(uses, {node});
  return true;
}

// quantised(dequantised(x)) of one scale and zero point → x: (n·s)/s rounds to n.
bool cancel(Graph& graph, const Quantization& q) {
  const auto before = dequantized(q.node->input(0));
  if (!before || !alike(q, *before)) return false;
  graph.replace_node(q.node, before->bytes());
  return true;
}

// concat(dequantised(a), dequantised(b)) of one scale → dequantised(concat(a, b))
bool concatenate_bytes(Graph& graph, Node* node) {
  if (!is(node, "Concat")) return false;
  std::vector<Value*> bytes;
  std::optional<Quantization> first;
  for (const Value* input : node->inputs) {
    const auto q = dequantized(input);
    if (!q || (first && !alike(*first, *q))) return false;
    if (!first) first = q;
    bytes.push_back(q->bytes());
  }
  const Node* made = insert(graph, node, "Concat", bytes, node->attrs);
  return made &&
         replace_with(graph, node, "DequantizeLinear", {made->output(), first->scale, first->zero}, first->node->attrs);
}

// --- products

Value* new_node(Graph& graph, const Node* near, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}) {
  const Node* made = insert(graph, near, op, std::move(inputs), std::move(attrs));
  FETTLE_CHECK(made);
  return made->output();
}
Value* cast_to(Graph& graph, const Node* near, Value* x, DType dtype) {
  return x->dtype() == dtype ? x : new_node(graph, near, "Cast", {x}, {{"to", onnx_number(dtype)}});
}
Value* reshaped_to(Graph& graph, const Node* near, Value* x, Shape shape) {
  return x->shape() == shape ? x : new_node(graph, near, "Reshape", {x}, reshape_attrs(std::move(shape)));
}
Value* swapped_dims(Graph& graph, const Node* near, Value* x) {
  std::vector<int64_t> perm = ops::first_numbers(static_cast<size_t>(x->rank()));
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return new_node(graph, near, "Transpose", {x}, {{"perm", perm}});
}
// One number, or a list along dim `axis` of a tensor of this rank.
Value* along(Graph& graph, const Node* near, Value* list, int64_t axis, int rank) {
  if (element_count(list->shape()) == Dim(1)) return reshaped_to(graph, near, list, {});
  Shape shape(static_cast<size_t>(rank - axis), 1);
  shape[0] = list->shape()[0];
  return reshaped_to(graph, near, list, std::move(shape));
}

// A bias of i32 in the scale of the product's sums, or null.
Value* bias_of_sums(const Value* bias, const Value* x_scale, const Value* w_scale) {
  Node* node = bias ? made_by(bias, "DequantizeLinear") : nullptr;
  if (!node || node->input(0)->dtype() != kI32 || !is_zero(node->input(2))) return nullptr;
  const Value* scale = node->input(1);
  const auto x = as_scalar(x_scale);
  if (!x || !w_scale->is_constant() || !scale->is_constant()) return nullptr;
  const ConstantTensor &s = *scale->constant, &w = *w_scale->constant;
  for (int64_t i = 0; i < std::max(s.n_elems(), w.n_elems()); ++i) {
    if ((s.n_elems() != 1 && i >= s.n_elems()) || (w.n_elems() != 1 && i >= w.n_elems())) return nullptr;
    const double wanted = *x * w.at(w.n_elems() == 1 ? 0 : i), stated = s.at(s.n_elems() == 1 ? 0 : i);
    if (!(std::abs(stated - wanted) <= 1e-6 * std::abs(wanted))) return nullptr;
  }
  const Value* whole = node->input(0);
  if (!whole->is_constant()) return nullptr;
  constexpr int64_t kGreatest = int64_t{1} << 30;  // with a sum of products of kMostTerms it stays in i32
  for (const int64_t number : to_ints(*whole->constant))
    if (std::abs(number) > kGreatest) return nullptr;
  return node->input(0);
}

// Sums of so many products of two bytes less zero points stay below 2^30.
constexpr int64_t kMostTerms = (int64_t{1} << 30) / (255 * 255);

// Whether the product of bytes is worth it: it has an instruction for terms side by side, and its sums fit.
bool is_worth_it(const Node* product, const Value* x, const Value* w) {
  constexpr int64_t kFewestTerms = 3, kFewestColumns = 9;
  const bool is_conv = is(product, "Conv"), transposes = product->attrs.get_int("transB", 0) != 0;
  if (is_conv ? !w->is_static() : !x->shape().back().is_number()) return false;
  const Dim terms = is_conv                                    ? w->shape()[1]
                    : product->attrs.get_int("transA", 0) != 0 ? x->shape()[0]
                                                               : x->shape().back();
  const Dim columns = is_conv || transposes ? w->shape()[0] : w->shape().back();
  if (!terms.is_number() || !columns.is_number()) return false;
  int64_t all = terms.value();
  for (size_t d = 2; is_conv && d < w->shape().size(); ++d) all *= w->shape()[d].value();
  const int64_t per_group = columns.value() / product->attrs.get_int("group", 1);
  return terms.value() >= kFewestTerms && per_group >= kFewestColumns && all <= kMostTerms;
}

// An operand and the number that stands for zero in it, as i32; null: 0.
struct Operand {
  Value *bytes, *zero;
};

// Constant weights less their zero point, where that is i8.
std::optional<Operand> less_zero(Graph& graph, const Operand& w, int64_t channel) {
  if (!w.bytes->is_constant() || !w.zero || !w.zero->is_constant()) return {};
  const ConstantTensor &bytes = *w.bytes->constant, &zero = *w.zero->constant;
  const bool is_list = zero.n_elems() != 1;
  const auto axis = static_cast<size_t>(channel);
  if (is_list && zero.n_elems() != bytes.shape[axis]) return {};
  int64_t inner = 1;
  for (size_t d = axis + 1; d < bytes.shape.size(); ++d) inner *= bytes.shape[d];
  TensorBuilder made = make_tensor(kI8, bytes.shape).value();
  const auto to = made.elems<int8_t>();
  const auto from = bytes.elems<uint8_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const int64_t c = is_list ? static_cast<int64_t>(i) / inner % bytes.shape[axis] : 0;
    const int64_t value =
        (bytes.dtype == kI8 ? static_cast<int8_t>(from[i]) : static_cast<int64_t>(from[i])) - zero.int_at(c);
    if (value < -128 || value > 127) return {};
    to[i] = static_cast<int8_t>(value);
  }
  return Operand{graph.add_constant(w.bytes->name, std::move(made).finish()), nullptr};
}

// product(dequantised(x), dequantised(w)) + bias  →  f32(integer product(x, w) + bias') * (x scale * w scale)
bool integer_product(Graph& graph, Node* node) {
  const bool is_conv = is(node, "Conv"), is_gemm = is(node, "Gemm");
  if (!is_conv && !is_gemm && !is(node, "MatMul")) return false;
  const auto x = dequantized(node->input(0)), w = dequantized(node->input(1));
  if (!x || !w || !x->is_plain || node->input(0) == node->input(1)) return false;
  const int rank = node->output()->rank();
  if (x->bytes()->rank() < 2 || w->bytes()->rank() < 2 || !is_worth_it(node, x->bytes(), w->bytes())) return false;
  const Attrs& attrs = node->attrs;
  Value* bias = node->input(2);
  const bool transposes = is_gemm && attrs.get_int("transB", 0) != 0;
  if (is_gemm && (attrs.get_float("alpha", 1) != 1 || (bias && attrs.get_float("beta", 1) != 1))) return false;
  const int64_t channel = is_conv || transposes ? 0 : w->bytes()->rank() - 1;  // of the weights
  if (!w->is_plain && (w->axis != channel || w->scale->rank() != 1 || (w->zero && w->zero->rank() != 1))) return false;
  // Zero points of a window's weights would need sums of windows.
  if (is_conv && (!w->bytes()->is_constant() || (x->zero && !x->zero->is_constant()))) return false;
  if (is_conv && !(w->bytes()->dtype() == kI8 && is_zero(w->zero)) && !less_zero(graph, {w->bytes(), w->zero}, 0))
    return false;
  // A list of zero points beside one scale, or the other way round, is not what quantisers make.
  if (!w->is_plain && w->zero && !is_zero(w->zero) && w->zero->shape() != w->scale->shape()) return false;
  Value *xs = x->bytes(), *ws = w->bytes();
  if (is_gemm && attrs.get_int("transA", 0)) xs = swapped_dims(graph, node, xs);
  if (transposes) ws = swapped_dims(graph, node, ws);
  Attrs kept;
  if (is_conv) kept = attrs;
  Value* w_zero = w->zero && !is_zero(w->zero) ? w->zero : nullptr;
  if (w_zero) w_zero = reshaped_to(graph, node, w_zero, w_zero->rank() == 0 ? Shape{1} : w_zero->shape());
  Value* sum =
      new_node(graph, node, is_conv ? "ConvInteger" : "MatMulInteger",
               {xs, ws, x->zero && !is_zero(x->zero) ? reshaped_to(graph, node, x->zero, {}) : nullptr, w_zero},
               std::move(kept));
  const int64_t output_channel = is_conv ? 1 : rank - 1;
  if (Value* whole = bias_of_sums(bias, x->scale, w->scale)) {
    sum = new_node(graph, node, "Add", {sum, is_conv ? along(graph, node, whole, 1, rank) : whole});
    bias = nullptr;
  }
  Value* scale = new_node(graph, node, "Mul",
                          {reshaped_to(graph, node, x->scale, {}), along(graph, node, w->scale, output_channel, rank)});
  Value* y = cast_to(graph, node, sum, kF32);
  Node* made = bias ? insert(graph, node, "Mul", {y, scale}) : replace_with(graph, node, "Mul", {y, scale});
  FETTLE_CHECK(made);
  if (bias)
    FETTLE_CHECK(
        replace_with(graph, node, "Add", {made->output(), is_conv ? along(graph, node, bias, 1, rank) : bias}));
  return true;
}

// --- one form: u8 by i8, zero points as what is added to the sums

ConstantTensor bytes_plus(const ConstantTensor& bytes, int64_t shift, DType dtype) {
  TensorBuilder made = make_tensor(dtype, bytes.shape).value();
  const auto from = bytes.elems<uint8_t>();
  const auto to = made.elems<uint8_t>();
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<uint8_t>(from[i] + static_cast<uint8_t>(shift));
  return std::move(made).finish();
}

Value* whole_number(Graph& graph, int64_t number) {
  return graph.add_constant("zero_point", scalar(static_cast<double>(number), kI32));
}
Value* plus(Graph& graph, const Node* near, Value* zero, int64_t shift) {
  Value* by = whole_number(graph, shift);
  if (!zero) return by;
  return new_node(graph, near, "Add", {zero, by});
}

// The operand as bytes of this type: 128 more, or less.
Operand as_type(Graph& graph, const Node* near, Operand x, DType dtype) {
  if (x.bytes->dtype() == dtype) return x;
  const int64_t shift = dtype == kU8 ? 128 : -128;
  Value* zero = plus(graph, near, x.zero, shift);
  if (x.bytes->is_constant())
    return {graph.add_constant(x.bytes->name, bytes_plus(*x.bytes->constant, shift, dtype)), zero};
  Value* wide = cast_to(graph, near, x.bytes, kI32);
  return {cast_to(graph, near, new_node(graph, near, "Add", {wide, whole_number(graph, shift)}), dtype), zero};
}

// The sums of constant weights that one output has: of a matrix [k, n] those of columns, of windows those of channels.
Value* sums_of_weights(Graph& graph, const Node* near, Value* w, bool is_conv) {
  if (!w->is_constant()) {
    Value* wide = cast_to(graph, near, w, kI32);
    return new_node(graph, near, "ReduceSum", {wide},
                    {{"axes", std::vector<int64_t>{w->rank() - 2}}, {"keepdims", int64_t{1}}});
  }
  const ConstantTensor& bytes = *w->constant;
  const auto from = bytes.elems<int8_t>();
  std::vector<int64_t> shape = bytes.shape;
  int64_t inner = 1, summed = 1;
  if (is_conv) {
    for (size_t d = 1; d < shape.size(); ++d) summed *= shape[d];
    shape = {shape[0]};
  } else {
    inner = shape.back();
    summed = shape[shape.size() - 2];
    if (shape.size() == 2)
      shape = {inner};
    else
      shape[shape.size() - 2] = 1;
  }
  TensorBuilder made = make_tensor(kI32, shape).value();
  const auto to = made.elems<int32_t>();
  for (size_t i = 0; i < to.size(); ++i) {
    const auto outer = static_cast<int64_t>(i) / inner, column = static_cast<int64_t>(i) % inner;
    uint32_t sum = 0;
    for (int64_t k = 0; k < summed; ++k)
      sum += static_cast<uint32_t>(from[static_cast<size_t>((outer * summed + k) * inner + column)]);
    to[i] = static_cast<int32_t>(sum);
  }
  return graph.add_constant(w->name + ".sums", std::move(made).finish());
}

// x with channels of no weight up to a multiple of four, as many as an instruction sums, and with what lies around it:
// windows then lie side by side in memory.
//   convinteger(x[n, 3, h, w], w) {pads}   →   convinteger(pad(x)[n, 4, h', w'], w')
void fill_channels(Graph& graph, const Node* near, Operand& rows, Operand& weights, Attrs& attrs, int64_t around) {
  constexpr int64_t kStep = 4, kMostChannels = 16;  // more channels are filled up by the kernel itself
  const Dim& channels = rows.bytes->shape()[1];
  if (!channels.is_number() || channels.value() % kStep == 0 || channels.value() > kMostChannels) return;
  if (attrs.get_int("group", 1) != 1 || !weights.bytes->is_constant()) return;
  const std::string auto_pad = attrs.get_string("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && !auto_pad.empty()) return;
  const int64_t more = kStep - channels.value() % kStep;
  const auto n = static_cast<size_t>(rows.bytes->rank()) - 2;
  const std::vector<int64_t> pads = attrs.get_ints("pads", std::vector<int64_t>(2 * n, 0));
  std::vector<int64_t> all{0, 0};
  all.insert(all.end(), pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
  all.insert(all.end(), {0, more});
  all.insert(all.end(), pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  rows.bytes = new_node(graph, near, "Pad", {rows.bytes}, {{"pads", all}, {"value", static_cast<double>(around)}});
  attrs.erase("pads");
  attrs.erase("pad_value");
  const ConstantTensor& w = *weights.bytes->constant;
  std::vector<int64_t> shape = w.shape;
  shape[1] += more;
  TensorBuilder made = make_tensor(kI8, shape).value();
  const auto from = w.elems<int8_t>();
  const auto to = made.elems<int8_t>();
  const size_t had = from.size() / static_cast<size_t>(shape[0]), has = to.size() / static_cast<size_t>(shape[0]);
  for (size_t c = 0; c < static_cast<size_t>(shape[0]); ++c)
    std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(c * had), had,
                to.begin() + static_cast<std::ptrdiff_t>(c * has));
  weights.bytes = graph.add_constant(weights.bytes->name, std::move(made).finish());
}

// Σ (a - za)(b - zb)  →  Σ a'b' - za'·Σb' - zb'·Σa' + k·za'·zb',  a' of u8 and b' of i8
bool plain_product(Graph& graph, Node* node) {
  const bool is_conv = is(node, "ConvInteger");
  if (!is_conv && !is(node, "MatMulInteger")) return false;
  Value *a = node->input(0), *b = node->input(1);
  if (a == b || a->rank() < 2 || b->rank() < 2 ||
      (a->dtype() == kU8 && b->dtype() == kI8 && !node->input(2) && !node->input(3)))
    return false;
  const auto is_one = [](const Value* v) { return element_count(v->shape()) == Dim(1); };
  const Dim depth = a->shape().back();
  if (is_conv ? !b->is_constant() || node->attrs.has("pad_value") : !depth.is_number()) return false;
  const auto zero_of = [&](Value* zero) -> Value* {
    if (is_zero(zero)) return nullptr;
    if (is_one(zero)) zero = reshaped_to(graph, node, zero, {});
    return cast_to(graph, node, zero, kI32);
  };
  if (node->input(2) && !is_one(node->input(2))) return false;
  const bool b_list = node->input(3) && !is_one(node->input(3));
  if (b_list && node->input(3)->rank() != 1) return false;
  // What is put around an image is what zero is in it.
  std::optional<int64_t> around = 0;
  if (is_conv && !is_zero(node->input(2))) {
    around.reset();
    if (node->input(2)->is_constant()) around = node->input(2)->constant->int_at(0);
  }
  if (is_conv && !around) return false;
  Operand weights{b, node->input(3) && !is_zero(node->input(3)) ? node->input(3) : nullptr};
  if (const auto plain = less_zero(graph, weights, is_conv ? 0 : b->rank() - 1)) {
    weights = *plain;
  } else {
    if (is_conv && b->dtype() == kU8) return false;  // sums of windows would be needed
    weights.zero = zero_of(weights.zero);
    if (is_conv && weights.zero) return false;
    weights = as_type(graph, node, weights, kI8);
  }
  Operand rows{a, zero_of(node->input(2))};
  rows = as_type(graph, node, rows, kU8);
  if (a->dtype() == kI8) *around += 128;

  Attrs attrs;
  if (is_conv) {
    attrs = node->attrs;
    if (*around != 0) attrs.set("pad_value", *around);
    fill_channels(graph, node, rows, weights, attrs, *around);
  }
  const int rank = node->output()->rank();
  const std::string_view op = node->op->name;
  Value* sum = new_node(graph, node, op, {rows.bytes, weights.bytes}, std::move(attrs));
  Value* less = nullptr;
  if (rows.zero) {
    Value* sums = sums_of_weights(graph, node, weights.bytes, is_conv);
    if (is_conv) sums = along(graph, node, sums, 1, rank);
    less = new_node(graph, node, "Mul", {sums, rows.zero});
    if (weights.zero) {
      Value* all = new_node(graph, node, "Mul", {rows.zero, whole_number(graph, depth.value())});
      less = new_node(graph, node, "Sub", {less, new_node(graph, node, "Mul", {all, weights.zero})});
    }
  }
  if (less) sum = new_node(graph, node, "Sub", {sum, less});
  if (weights.zero) {
    Value* sums = new_node(graph, node, "ReduceSum", {cast_to(graph, node, rows.bytes, kI32)},
                           {{"axes", std::vector<int64_t>{rows.bytes->rank() - 1}}, {"keepdims", int64_t{1}}});
    sum = new_node(graph, node, "Sub", {sum, new_node(graph, node, "Mul", {sums, weights.zero})});
  }
  if (sum->shape() != node->output()->shape()) return false;
  put_in_place(graph, node, sum->producer);
  return true;
}

// --- what is quantised is made as the products that read it want it

// u8 where rows of a product read it, i8 where columns do; nothing where it does not matter.
void find_wanted(const Graph& graph, const Value* bytes, bool& is_row, bool& is_column, bool& may_change) {
  may_change = may_change && !graph.is_output(bytes);
  for (const Node* user : bytes->users) {
    if (is(user, "DequantizeLinear") && user->input(0) == bytes) {
      const auto q = quantization(const_cast<Node*>(user));
      may_change = may_change && q && q->is_plain && (!q->zero || q->zero->is_constant());
      for (const Node* reader : user->output()->users) {
        const bool product = is(reader, "MatMul") || is(reader, "Gemm") || is(reader, "Conv");
        if (!product) continue;
        is_row = is_row || reader->input(0) == user->output();
        is_column = is_column || reader->input(1) == user->output();
      }
    } else if (moves_only(user) && user->input(0) == bytes && std::ranges::count(user->inputs, bytes) == 1) {
      for (const Value* output : user->outputs) find_wanted(graph, output, is_row, is_column, may_change);
    } else {
      may_change = false;
    }
  }
}

void shift_bytes(Graph& graph, Value* bytes, DType dtype) {
  bytes->type->dtype = dtype;
  bytes->declared.reset();
  const int64_t shift = dtype == kU8 ? 128 : -128;
  for (Node* user : std::vector<Node*>(bytes->users)) {
    if (is(user, "DequantizeLinear")) {
      const int64_t zero = user->input(2) ? user->input(2)->constant->int_at(0) : 0;
      graph.resize_inputs(user, 2);
      Value* shifted = graph.add_constant("zero_point", scalar(static_cast<double>(zero + shift), dtype));
      const std::vector<Value*> inputs = {bytes, user->input(1), shifted};
      put_in_place(graph, user, insert(graph, user, "DequantizeLinear", inputs, user->attrs));
    } else {
      for (Value* output : user->outputs) shift_bytes(graph, output, dtype);
    }
  }
}

bool choose_type(Graph& graph, Node* node) {
  const auto q = quantization(node);
  if (!q || !is(node, "QuantizeLinear") || !q->is_plain || (q->zero && !q->zero->is_constant())) return false;
  bool is_row = false, is_column = false, may_change = true;
  find_wanted(graph, node->output(), is_row, is_column, may_change);
  if (!may_change || is_row == is_column) return false;
  const DType wanted = is_row ? kU8 : kI8;
  if (node->output()->dtype() == wanted) return false;
  const int64_t zero = q->zero ? q->zero->constant->int_at(0) : 0, shift = wanted == kU8 ? 128 : -128;
  Attrs attrs = node->attrs;
  attrs.erase("output_dtype");
  Value* shifted = graph.add_constant("zero_point", scalar(static_cast<double>(zero + shift), wanted));
  Node* made = insert(graph, node, "QuantizeLinear", {node->input(0), q->scale, shifted}, std::move(attrs));
  if (!made) return false;
  shift_bytes(graph, node->output(), wanted);
  put_in_place(graph, node, made);
  return true;
}

// (sum - c) + bias  →  sum + (bias - c), of constants in i32
void join_addends(Graph& graph, Node* node) {
  if (!is(node, "Add") || node->output()->dtype() != kI32) return;
  Node* before = made_only_for_us(graph, node->input(0), "Sub");
  if (!before || !before->input(1)->is_constant() || !node->input(1)->is_constant()) return;
  if (!made_by(before->input(0), "MatMulInteger") && !made_by(before->input(0), "ConvInteger")) return;
  const ConstantTensor &c = *before->input(1)->constant, &bias = *node->input(1)->constant;
  if (c.shape != bias.shape) return;
  TensorBuilder made = make_tensor(kI32, bias.shape).value();
  const auto to = made.elems<uint32_t>();
  for (size_t i = 0; i < to.size(); ++i)
    to[i] = static_cast<uint32_t>(bias.int_at(static_cast<int64_t>(i))) -
            static_cast<uint32_t>(c.int_at(static_cast<int64_t>(i)));
  Value* both = graph.add_constant(node->input(1)->name, std::move(made).finish());
  replace_with(graph, node, "Add", {before->input(0), both});
}

// --- requantisation: what is divided by the next scale is multiplied by a constant that is there already

// Whether the value comes of sums of products, by elementwise work.
bool is_of_products(const Graph& graph, const Value* value, int depth = 0) {
  const Node* node = value->producer;
  if (!node || depth > 8) return false;
  if (is(node, "MatMulInteger") || is(node, "ConvInteger")) return true;
  if (is(node, "DequantizeLinear")) return false;
  const bool passes_on = is_pointwise(node) && graph.use_count(value) == 1;
  return passes_on &&
         std::ranges::any_of(node->inputs, [&](const Value* x) { return is_of_products(graph, x, depth + 1); });
}

std::optional<ConstantTensor> divided(const ConstantTensor& c, double by) {
  std::vector<double> values = to_doubles(c);
  for (double& v : values) v /= by;
  return exact_constant(values, kF32, c.shape);
}

// Whether value / scale can be made without dividing.
bool divides(const Graph& graph, const Value* value, int depth = 0) {
  if (value->is_constant()) return true;
  const Node* node = value->producer;
  if (!node || depth > 8 || graph.use_count(value) != 1) return false;
  const auto q = dequantized(value);
  if (q) return q->scale->is_constant();
  if (is(node, "Mul")) return operands(node, [](const Value* v) { return v->is_constant(); }).has_value();
  if (is(node, "Add"))
    return node->inputs[0] != node->inputs[1] && divides(graph, node->inputs[0], depth + 1) &&
           divides(graph, node->inputs[1], depth + 1);
  return is(node, "Relu") && divides(graph, node->inputs[0], depth + 1);
}
Value* divide(Graph& graph, Value* value, double by) {
  const auto over = [&](const Value* c) { return graph.add_constant(c->name, *divided(*c->constant, by)); };
  if (value->is_constant()) return over(value);
  const Node* node = value->producer;
  std::vector<Value*> inputs = node->inputs;
  if (is(node, "DequantizeLinear"))
    inputs[1] = over(inputs[1]);
  else if (is(node, "Mul"))
    (inputs[1]->is_constant() ? inputs[1] : inputs[0]) = over(inputs[1]->is_constant() ? inputs[1] : inputs[0]);
  else
    for (Value*& input : inputs) input = divide(graph, input, by);
  return new_node(graph, node, node->op->name, std::move(inputs), node->attrs);
}

// dequantised(quantised(x, 1, z), s, z) → clip(round(x)) * s: what it is without the way through bytes, of numbers
bool stays_float(Graph& graph, const Node* node, const Quantization& q, Value* x) {
  Node* user = only_user(graph, node->output());
  const auto back = is(user, "DequantizeLinear") ? quantization(user) : std::nullopt;
  if (!back || !q.is_plain || !back->is_plain || !back->scale->is_constant() || !same_constant(q.zero, back->zero) ||
      (q.zero && !q.zero->is_constant()))
    return false;
  const int64_t zero = q.zero ? q.zero->constant->int_at(0) : 0;
  const DType bytes = q.bytes()->dtype();
  Value* steps = new_node(graph, node, "Round", {x});
  steps = new_node(graph, node, "Clip", {steps},
                   {{"min", static_cast<double>(least_int(bytes) - zero)},
                    {"max", static_cast<double>(greatest_int(bytes) - zero)}});
  return replace_with(graph, user, "Mul", {steps, reshaped_to(graph, node, back->scale, {})});
}

// Nodes whose results nothing reads any more: what they read is then another's alone.
void erase_unused(Graph& graph, const Value* value) {
  Node* node = value->producer;
  if (!node || node->erased) return;
  for (const Value* output : node->outputs)
    if (graph.use_count(output) != 0) return;
  const std::vector<Value*> inputs = node->inputs;
  graph.erase(node);
  for (const Value* input : inputs)
    if (input) erase_unused(graph, input);
}

// quantised(f32(sums) * c, s) → quantised(f32(sums) * (c / s), 1), through sums and Relu
bool requantize(Graph& graph, Node* node) {
  const auto q = quantization(node);
  if (!q || !is(node, "QuantizeLinear") || !is_positive(q->scale) || as_scalar(q->scale) == 1.0) return false;
  Value *x = node->input(0), *const before = x;
  if (!is_of_products(graph, x)) return false;
  const double scale = *as_scalar(q->scale);
  Value* one = graph.add_constant("one", scalar(1));
  if (divides(graph, x)) {
    x = divide(graph, x, scale);
  } else {
    Value* inverse = graph.add_constant(q->scale->name, scalar(1 / scale));
    x = new_node(graph, node, "Mul", {x, inverse});
  }
  if (stays_float(graph, node, *q, x)) {
    erase_unused(graph, node->output());
    return true;
  }
  Attrs attrs = node->attrs;
  Value* zero = q->zero;
  if (is_zero(zero)) {
    attrs.set("output_dtype", onnx_number(node->output()->dtype()));
    zero = nullptr;
  }
  std::vector<Value*> inputs{x, one};
  if (zero) inputs.push_back(zero);
  replace_with(graph, node, "QuantizeLinear", std::move(inputs), std::move(attrs));
  erase_unused(graph, before);
  return true;
}

}  // namespace

Result<> lower_quantized(Graph& graph, const PassContext& context) {
  const auto each = [&](const auto& rewrite) {
    for (Node* node : std::vector<Node*>(graph.nodes()))
      if (!node->erased) rewrite(node);
  };
  const bool is_quantized = std::ranges::any_of(graph.nodes(), [](const Node* node) {
    return is(node, "DequantizeLinear") || is(node, "MatMulInteger") || is(node, "ConvInteger");
  });
  if (!is_quantized) return {};
  // Weights that the file quantises.
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (is(node, "QuantizeLinear") && can_fold(*node, 0))
      FETTLE_TRY_VOID(fold_node(graph, node, context).map([](bool) {}));
  each([&](Node* node) {
    if (node->inputs.empty() || !node->inputs[0]) return;
    if (const auto q = quantization(node); q && is(node, "QuantizeLinear"))
      cancel(graph, *q);
    else if (const auto before = dequantized(node->inputs[0]))
      move_bytes(graph, node, *before) || concatenate_bytes(graph, node);
  });
  graph.sort();
  FETTLE_TRY_VOID(drop_dead(graph, context));
  each([&](Node* node) { choose_type(graph, node); });
  graph.sort();
  each([&](Node* node) { integer_product(graph, node); });
  graph.sort();
  // Weights that are moved are constants again.
  for (Node* node : std::vector<Node*>(graph.nodes()))
    if (!node->erased && moves_only(node) && is_byte(node->output()->dtype()) && can_fold(*node, 0))
      FETTLE_TRY_VOID(fold_node(graph, node, context).map([](bool) {}));
  each([&](Node* node) { plain_product(graph, node); });
  graph.sort();
  FETTLE_TRY_VOID(drop_dead(graph, context));
  for (Node* node : std::vector<Node*>(graph.nodes()))  // constants of scales
    if (!node->erased && node->output()->dtype() != kI8 && folds_at_once(*node))
      FETTLE_TRY_VOID(fold_node(graph, node, context).map([](bool) {}));
  graph.sort();
  each([&](Node* node) { join_addends(graph, node); });
  each([&](Node* node) { requantize(graph, node); });
  graph.sort();
  return drop_dead(graph, context);
}

}  // namespace fettle::passes
