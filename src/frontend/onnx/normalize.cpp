#include "frontend/onnx/normalize.h"

#include <fmt/format.h>

namespace fettle::onnx_reader {
namespace {

tl::unexpected<Diagnostic> unsupported(const ModelNode& node, std::string what) {
  return fail(ErrorCode::E603, fmt::format("{} {}", node.op, what), node.name);
}

// Softmax, LogSoftmax and Hardmax before 13 flattened their input to two dims.
void coerce_axis(ModelNode& node, int opset) {
  if (opset >= 13) return;
  if (!node.attrs.has("axis")) node.attrs.set("axis", int64_t{1});
  node.attrs.set("coerced", int64_t{1});
}

Result<> batch_normalization(ModelNode& node, int opset) {
  if (node.attrs.get_int("training_mode", 0) != 0) {
    node.op = "TrainingBatchNormalization";
    return {};
  }
  if (opset < 9 && node.attrs.get_int("spatial", 1) == 0) return unsupported(node, "with spatial=0");
  node.outputs.resize(1);
  for (const char* name : {"momentum", "spatial", "training_mode"}) node.attrs.erase(name);
  return {};
}

Result<> dropout(ModelNode& node) {
  if (node.inputs.size() > 2 && node.inputs[2]) {
    const Value& training = *node.inputs[2];
    const Value* ratio = node.inputs[1];
    const bool drops_nothing = ratio && ratio->is_constant() && ratio->constant->at(0) == 0;
    if (!drops_nothing && (!training.is_constant() || training.constant->at(0) != 0))
      return unsupported(node, "in training mode");
  }
  node.inputs.resize(1);
  node.attrs = {};
  if (node.outputs.size() == 1 || node.outputs[1].empty()) {
    node.op = "Identity";
    node.outputs.resize(1);
  }
  return {};
}

// Nearest and linear resizing with corners of the input and the output laid on each other at zero.
void resize_asymmetric(ModelNode& node) {
  node.attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attrs.set("nearest_mode", std::string("floor"));
}

// What no table of two or four neighbours says.
bool needs_tables(const ModelNode& node) {
  return node.attrs.get_int("antialias", 0) != 0 || node.attrs.get_int("exclude_outside", 0) != 0 ||
         node.attrs.get_string("coordinate_transformation_mode", "") == "tf_crop_and_resize";
}

Result<> upsample(ModelNode& node) {
  node.op = "Resize";
  resize_asymmetric(node);
  if (node.inputs.size() == 2) node.inputs = {node.inputs[0], nullptr, node.inputs[1]};
  return {};
}

}  // namespace

namespace {

// Operators under other names: of older opsets, and of domains whose operators ONNX has come to have, too.
constexpr std::pair<std::string_view, std::string_view> kSynonyms[] = {
    {"Scatter", "ScatterElements"},
    {"com.microsoft.Gelu", "Gelu"},
    {"com.microsoft.QuantizeLinear", "QuantizeLinear"},
    {"com.microsoft.DequantizeLinear", "DequantizeLinear"},
};

}  // namespace

std::string_view newest_name(std::string_view op) {
  if (op == "Upsample") return "Resize";
  for (const auto& [name, newest] : kSynonyms)
    if (op == name) return newest;
  return op;
}

Result<> normalize(ModelNode& node, int opset) {
  for (const auto& [name, newest] : kSynonyms)
    if (node.op == name) node.op = newest;
  if (node.op == "Softmax" || node.op == "LogSoftmax" || node.op == "Hardmax")
    coerce_axis(node, opset);
  else if (node.op == "BatchNormalization")
    return batch_normalization(node, opset);
  else if (node.op == "Dropout")
    return dropout(node);
  else if (node.op == "Upsample")
    return upsample(node);
  else if (node.op == "Scatter")
    node.op = newest_name(node.op);
  else if (node.op == "Resize" && opset < 11) {
    resize_asymmetric(node);
    if (node.inputs.size() == 2) node.inputs = {node.inputs[0], nullptr, node.inputs[1]};
  } else if (node.op == "Resize" && needs_tables(node)) {
    node.op = "ResizeByTables";
  } else if (node.op == "Gemm" || node.op == "Conv" || node.op == "MatMul") {
    // The same since 7.
  } else if (node.op == "MaxPool" && node.outputs.size() > 1) {
    node.op = "MaxPoolWithIndices";
  } else if (node.op == "RoiAlign" && opset < 16) {
    node.attrs.set("coordinate_transformation_mode", std::string("output_half_pixel"));
  } else if (node.op == "DFT" && opset < 20) {
    if (!node.attrs.has("axis")) node.attrs.set("axis", int64_t{1});
  } else if (node.op == "Attention" && opset < 24) {
    node.attrs.set("whole_mask", int64_t{1});  // its extents are those of the scores, or 1
  } else if (node.op == "GroupNormalization" && opset < 21) {
    node.attrs.set("per_group", int64_t{1});  // scale and bias have one element a group
  }
  return {};
}

}  // namespace fettle::onnx_reader
