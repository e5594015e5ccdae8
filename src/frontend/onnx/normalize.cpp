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
  if (node.attrs.get_int("training_mode", 0) != 0) return unsupported(node, "in training mode");
  if (opset < 9 && node.attrs.get_int("spatial", 1) == 0) return unsupported(node, "with spatial=0");
  node.outputs.resize(1);
  for (const char* name : {"momentum", "spatial", "training_mode"}) node.attrs.erase(name);
  return {};
}

Result<> dropout(ModelNode& node) {
  if (node.inputs.size() > 2 && node.inputs[2]) {
    const Value& training = *node.inputs[2];
    if (!training.is_constant() || training.constant->at(0) != 0) return unsupported(node, "in training mode");
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

Result<> upsample(ModelNode& node) {
  node.op = "Resize";
  resize_asymmetric(node);
  if (node.inputs.size() == 2) node.inputs = {node.inputs[0], nullptr, node.inputs[1]};
  return {};
}

}  // namespace

std::string_view newest_name(std::string_view op) {
  if (op == "Upsample") return "Resize";
  if (op == "Scatter") return "ScatterElements";
  return op;
}

Result<> normalize(ModelNode& node, int opset) {
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
  } else if (node.op == "Gemm" || node.op == "Conv" || node.op == "MatMul") {
    // The same since 7.
  } else if (node.op == "GroupNormalization" && opset < 21) {
    node.attrs.set("per_group", int64_t{1});  // scale and bias have one element a group
  }
  return {};
}

}  // namespace fettle::onnx_reader
