#include "frontend/onnx/normalize.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "graph/op.h"
#include "onnx-ml.pb.h"

namespace fettle::onnx_reader {
namespace {

/// What a rewrite is told.
struct Form {
  int opset;
  Graph& graph;  // that the node comes to
};
using Rewrite = Result<> (*)(ModelNode& node, const Form& form);

tl::unexpected<Diagnostic> unsupported(const ModelNode& node, std::string what) {
  return fail(ErrorCode::E603, fmt::format("{} {}", node.op, what), node.name);
}

bool is_used(const ModelNode& node, size_t output) {
  return output < node.outputs.size() && !node.outputs[output].empty();
}

void set_missing(ModelNode& node, std::string_view name, AttrValue value) {
  if (!node.attrs.has(name)) node.attrs.set(std::string(name), std::move(value));
}

template <const char* Name>
Result<> without_attribute(ModelNode& node, const Form&) {
  node.attrs.erase(Name);
  return {};
}

// --- opsets before 7

constexpr char kBroadcast[] = "broadcast", kOutputSequence[] = "output_sequence";

// The input's dims are those of input 0 from `axis` on: it gets dims of one element behind them.
void align(ModelNode& node, const Form& form, size_t input, int64_t axis) {
  Node* aligned = form.graph.add_node(find_op("AlignedTo"), node.name + ".aligned",
                                      {node.inputs[input], node.inputs[0]}, {{{"axis", axis}}});
  aligned->provenance = {{node.op, node.name}};
  node.inputs[input] = aligned->output();
}

//   Add-6(a, b) {broadcast=1, axis=k}   →   Add(a, AlignedTo(b, a) {axis=k})
Result<> old_broadcast(ModelNode& node, const Form& form) {
  const bool is_aligned = node.attrs.get_int("broadcast", 0) != 0 && node.attrs.has("axis");
  if (is_aligned && node.inputs.size() == 2 && node.inputs[0] && node.inputs[1])
    align(node, form, 1, node.attrs.get_int("axis", 0));
  node.attrs.erase("axis");
  node.attrs.erase("broadcast");
  return {};
}

// One slope, or one a channel.
Result<> slope_of_channels(ModelNode& node, const Form& form) {
  if (node.inputs.size() == 2 && node.inputs[0] && node.inputs[1]) align(node, form, 1, 1);
  return {};
}

// The type by its name: "FLOAT"
Result<> named_type(ModelNode& node, const Form&) {
  const std::string name = node.attrs.get_string("to", "");
  onnx::TensorProto::DataType type{};
  if (!onnx::TensorProto::DataType_Parse(name, &type))
    return fail(ErrorCode::E606, fmt::format("Cast to \"{}\", which is no type", name), node.name);
  node.attrs.set("to", static_cast<int64_t>(type));
  return {};
}

Result<> first_channels(ModelNode& node, const Form&) {
  set_missing(node, "axis", int64_t{1});
  return {};
}

Result<> paddings(ModelNode& node, const Form&) {
  node.attrs.set("pads", node.attrs.get_ints("paddings"));
  node.attrs.erase("paddings");
  return {};
}

// (x, how often, along which axis)
Result<> tile_along_axis(ModelNode& node, const Form& form) {
  node.op = "TileAlongAxis";
  // Numbers, both of them, in the tensor's type.
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    if (!node.inputs[i]) continue;
    Node* whole = form.graph.add_node(find_op("Cast"), node.name + ".whole", {node.inputs[i]},
                                      {{{"to", int64_t{onnx::TensorProto::INT64}}}});
    whole->provenance = {{node.op, node.name}};
    node.inputs[i] = whole->output();
  }
  return {};
}

Result<> selu(ModelNode& node, const Form&) {
  set_missing(node, "alpha", 1.6732);
  set_missing(node, "gamma", 1.0507);
  return {};
}

Result<> whole_norm(ModelNode& node, const Form&) {
  const double p = node.attrs.get_float("p", 2);
  if (p != static_cast<double>(static_cast<int64_t>(p))) return unsupported(node, fmt::format("with p={}", p));
  node.attrs.set("p", static_cast<int64_t>(p));
  return {};
}

// --- later ones

// Softmax, LogSoftmax and Hardmax before 13 flattened their input to two dims.
Result<> coerce_axis(ModelNode& node, const Form&) {
  set_missing(node, "axis", int64_t{1});
  node.attrs.set("coerced", int64_t{1});
  return {};
}

// Before opset 14 it trains where it has outputs beside the first, unless it is said to be tested.
Result<> batch_normalization(ModelNode& node, const Form& form) {
  bool trains = node.attrs.get_int("training_mode", 0) != 0;
  const bool is_test = form.opset < 7 && node.attrs.get_int("is_test", 0) != 0;
  const bool per_activation = form.opset < 9 && node.attrs.get_int("spatial", 1) == 0;
  if (form.opset < 14 && !is_test)
    for (size_t i = 1; i < node.outputs.size(); ++i) trains = trains || is_used(node, i);
  for (const char* name : {"is_test", "spatial", "training_mode"}) node.attrs.erase(name);
  if (trains) {
    if (per_activation) return unsupported(node, "in training mode with spatial=0");
    node.op = "TrainingBatchNormalization";
    return {};
  }
  node.outputs.resize(1);
  node.attrs.erase("momentum");
  if (per_activation) node.op = "BatchNormalizationOfActivations";
  return {};
}

// The stream of the node's random numbers: that of what it makes, whose name is the only one of its graph.
void set_stream(ModelNode& node) {
  node.attrs.set("stream", static_cast<int64_t>(digest_bytes(node.outputs.front()).low));
}

Result<> random(ModelNode& node, const Form&) {
  set_stream(node);
  return {};
}

// What trains or may train is TrainingDropout(x, ratio, whether it trains) {seed, stream}.
Result<> dropout(ModelNode& node, const Form& form) {
  constexpr double kUsualRatio = 0.5;
  node.inputs.resize(3, nullptr);
  Value *ratio = node.inputs[1], *training = node.inputs[2];
  bool trains = false;
  if (form.opset < 7) {
    trains = node.attrs.get_int("is_test", 0) == 0;
  } else if (training) {
    const auto is_zero = [](const Value* value) {
      return value && value->is_constant() && value->constant->n_elems() == 1 && value->constant->at(0) == 0;
    };
    trains = !is_zero(ratio) && !is_zero(training);
  }
  const bool numeric_mask = form.opset < 10 && is_used(node, 1);
  if (trains || numeric_mask) {
    node.op = "TrainingDropout";
    if (!ratio)
      node.inputs[1] =
          form.graph.add_constant(node.name + ".ratio", scalar(node.attrs.get_float("ratio", kUsualRatio)));
    if (!training) node.inputs[2] = form.graph.add_constant(node.name + ".training", scalar(trains, kBool));
    for (const char* name : {"is_test", "ratio"}) node.attrs.erase(name);
    if (numeric_mask) node.attrs.set("numeric_mask", int64_t{1});
    if (node.outputs.front().empty()) node.outputs.front() = node.name + ".y";
    if (trains) set_stream(node);
    return {};
  }
  node.inputs.resize(1);
  node.attrs = {};
  if (!is_used(node, 1)) {
    node.op = "Identity";
    node.outputs.resize(1);
  }
  return {};
}

// Nearest and linear resizing with corners of the input and the output laid on each other at zero. The nearest pixel is
// that before where an axis becomes larger, and that behind where it becomes smaller.
Result<> resize_asymmetric(ModelNode& node, const Form&) {
  bool enlarges = true, reduces = false;
  if (const Value* scales = node.inputs.size() == 2 ? node.inputs[1] : nullptr; scales && scales->is_constant()) {
    const std::vector<double> all = to_doubles(*scales->constant);
    enlarges = std::ranges::any_of(all, [](double scale) { return scale > 1; });
    reduces = std::ranges::any_of(all, [](double scale) { return scale < 1; });
  }
  if (enlarges && reduces && node.attrs.get_string("mode", "nearest") == "nearest")
    return unsupported(node, "to the nearest, which enlarges one axis and reduces another");
  node.attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attrs.set("nearest_mode", std::string(reduces ? "ceil" : "floor"));
  if (node.inputs.size() == 2) node.inputs = {node.inputs[0], nullptr, node.inputs[1]};
  return {};
}

Result<> upsample(ModelNode& node, const Form& form) {
  node.op = "Resize";
  if (node.attrs.has("height_scale") || node.attrs.has("width_scale")) {
    node.attrs.set("scales", std::vector<double>{1, 1, node.attrs.get_float("height_scale", 1),
                                                 node.attrs.get_float("width_scale", 1)});
    node.attrs.erase("height_scale");
    node.attrs.erase("width_scale");
  }
  // "bilinear", before opset 7
  if (node.attrs.get_string("mode", "").ends_with("linear")) node.attrs.set("mode", std::string("linear"));
  return resize_asymmetric(node, form);
}

// What no table of two or four neighbours says.
Result<> resize_by_tables(ModelNode& node, const Form&) {
  if (node.attrs.get_int("antialias", 0) != 0 || node.attrs.get_int("exclude_outside", 0) != 0 ||
      node.attrs.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize")
    node.op = "ResizeByTables";
  return {};
}

// Of ONNX Runtime's form.
Result<> channels_first(ModelNode& node, const Form&) {
  if (node.attrs.get_int("channels_last", 0) != 0) return unsupported(node, "with channels_last=1");
  node.attrs.erase("channels_last");
  return {};
}

Result<> with_indices(ModelNode& node, const Form&) {
  if (node.outputs.size() > 1) node.op = "MaxPoolWithIndices";
  return {};
}

Result<> half_pixels(ModelNode& node, const Form&) {
  node.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  return {};
}

// Its extents are those of the scores, or 1.
Result<> whole_mask(ModelNode& node, const Form&) {
  node.attrs.set("whole_mask", int64_t{1});
  return {};
}

// Scale and bias have one element a group.
Result<> per_group(ModelNode& node, const Form&) {
  node.attrs.set("per_group", int64_t{1});
  return {};
}

/// Nodes of `op` in opsets before `before`.
struct Rule {
  std::string_view op;
  int before;
  Rewrite rewrite;
};
constexpr int kAlways = INT_MAX;

// All that fit are applied, in this order, to nodes called so when it is their turn.
constexpr Rule kRules[] = {
    {"Add", 7, old_broadcast},
    {"And", 7, old_broadcast},
    {"Attention", 24, whole_mask},
    {"BatchNormalization", kAlways, batch_normalization},
    {"Bernoulli", kAlways, random},
    {"Cast", 6, named_type},
    {"Concat", 4, first_channels},
    {"DFT", 20, first_channels},
    {"Div", 7, old_broadcast},
    {"Dropout", kAlways, dropout},
    {"Equal", 7, old_broadcast},
    {"GRU", 7, without_attribute<kOutputSequence>},
    {"Gemm", 7, without_attribute<kBroadcast>},
    {"GlobalLpPool", 2, whole_norm},
    {"Greater", 7, old_broadcast},
    {"GroupNormalization", 21, per_group},
    {"Hardmax", 13, coerce_axis},
    {"LSTM", 7, without_attribute<kOutputSequence>},
    {"Less", 7, old_broadcast},
    {"LogSoftmax", 13, coerce_axis},
    {"LpPool", 2, whole_norm},
    {"MaxPool", kAlways, with_indices},
    {"Mul", 7, old_broadcast},
    {"Multinomial", kAlways, random},
    {"Or", 7, old_broadcast},
    {"PRelu", 7, slope_of_channels},
    {"Pad", 2, paddings},
    {"Pow", 7, old_broadcast},
    {"QLinearConv", kAlways, channels_first},
    {"RNN", 7, without_attribute<kOutputSequence>},
    {"RandomNormal", kAlways, random},
    {"RandomNormalLike", kAlways, random},
    {"RandomUniform", kAlways, random},
    {"RandomUniformLike", kAlways, random},
    {"Resize", 11, resize_asymmetric},
    {"Resize", kAlways, resize_by_tables},
    {"RoiAlign", 16, half_pixels},
    {"Selu", 6, selu},
    {"Softmax", 13, coerce_axis},
    {"Sub", 7, old_broadcast},
    {"Tile", 6, tile_along_axis},
    {"Upsample", kAlways, upsample},
    {"Xor", 7, old_broadcast},
};

// Operators under other names: of older opsets, and of domains whose operators ONNX has come to have, too.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"Scatter", "ScatterElements"},
    {"com.microsoft.Gelu", "Gelu"},
    {"com.microsoft.QuantizeLinear", "QuantizeLinear"},
    {"com.microsoft.DequantizeLinear", "DequantizeLinear"},
    {"com.microsoft.GatherND", "GatherND"},
    {"com.microsoft.QLinearConv", "QLinearConv"},
    {"com.microsoft.Range", "Range"},
    {"com.microsoft.TransposeMatMul", "com.microsoft.FusedMatMul"},
    {"com.microsoft.Trilu", "Trilu"},
};

}  // namespace

std::string_view newest_name(std::string_view op) {
  if (op == "Upsample") return "Resize";
  for (const auto& [name, newest] : kSynonyms)
    if (op == name) return newest;
  return op;
}

Result<> normalize(ModelNode& node, int opset, Graph& graph) {
  constexpr int kWithoutConsumedInputs = 6;
  if (opset < kWithoutConsumedInputs) node.attrs.erase("consumed_inputs");
  for (const auto& [name, newest] : kSynonyms)
    if (node.op == name) node.op = newest;
  const Form form{opset, graph};
  for (const Rule& rule : kRules)
    if (opset < rule.before && node.op == rule.op) FETTLE_TRY_VOID(rule.rewrite(node, form));
  return {};
}

}  // namespace fettle::onnx_reader
