#include "quantize/model_index.h"

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/tensor_reader.h"

namespace fettle::quantize {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::NodeProto;

ModelIndex::ModelIndex(const OnnxModel& model) : model_(model), files_(model.data) {
  for (const auto& tensor : graph().initializer()) {
    tensors_.emplace(tensor.name(), &tensor);
    constants_.insert(tensor.name());
  }
  for (const auto& tensor : graph().sparse_initializer()) constants_.insert(tensor.values().name());
  for (int i = 0; i < graph().node_size(); ++i) {
    const NodeProto& made = node(i);
    for (const std::string& output : made.output())
      if (!output.empty()) producers_.emplace(output, i);
    for (const std::string& input : made.input())
      if (!input.empty()) ++readers_[input];
    if (made.op_type() == "Constant" && made.output_size() > 0)
      if (const AttributeProto* value = find_attribute(made, "value"); value && value->has_t())
        tensors_.emplace(made.output(0), &value->t());
    bool has_body = false;
    for (const AttributeProto& a : made.attribute()) {
      if (a.has_g()) add_body(a.g());
      for (const GraphProto& body : a.graphs()) add_body(body);
      has_body = has_body || a.has_g() || a.graphs_size() > 0;
    }
    const bool is_constant = !has_body && !made.op_type().starts_with("Random") &&
                             std::ranges::all_of(made.input(), [&](const std::string& input) {
                               return input.empty() || constants_.contains(input);
                             });
    if (is_constant) constants_.insert(made.output().begin(), made.output().end());
  }
  for (const auto& output : graph().output()) by_name_.insert(output.name());
  add_names(graph());
}

void ModelIndex::add_names(const GraphProto& graph) {
  for (const auto& input : graph.input()) names_.insert(input.name());
  for (const auto& tensor : graph.initializer()) names_.insert(tensor.name());
  for (const auto& tensor : graph.sparse_initializer()) names_.insert(tensor.values().name());
  for (const NodeProto& node : graph.node()) {
    names_.insert(node.name());
    names_.insert(node.output().begin(), node.output().end());
    for (const AttributeProto& a : node.attribute()) {
      if (a.has_g()) add_names(a.g());
      for (const GraphProto& body : a.graphs()) add_names(body);
    }
  }
}

void ModelIndex::add_body(const GraphProto& graph) {
  for (const auto& output : graph.output()) by_name_.insert(output.name());
  for (const NodeProto& node : graph.node()) {
    by_name_.insert(node.input().begin(), node.input().end());
    for (const AttributeProto& a : node.attribute()) {
      if (a.has_g()) add_body(a.g());
      for (const GraphProto& body : a.graphs()) add_body(body);
    }
  }
}

int64_t ModelIndex::opset() const {
  int64_t opset = 0;
  for (const auto& entry : model().opset_import())
    if (onnx_reader::is_standard_domain(entry.domain())) opset = entry.version();
  return opset;
}

int ModelIndex::producer(std::string_view value) const {
  const auto found = producers_.find(value);
  return found == producers_.end() ? -1 : found->second;
}

int ModelIndex::n_readers(std::string_view value) const {
  const auto found = readers_.find(value);
  return found == readers_.end() ? 0 : found->second;
}

const onnx::TensorProto* ModelIndex::constant(std::string_view value) const {
  const auto found = tensors_.find(value);
  return found == tensors_.end() ? nullptr : found->second;
}

Result<ConstantTensor> ModelIndex::content(const onnx::TensorProto& tensor) const {
  return onnx_reader::read_tensor(tensor, model_.proto, files_);
}

const AttributeProto* find_attribute(const NodeProto& node, std::string_view name) {
  for (const AttributeProto& a : node.attribute())
    if (a.name() == name) return &a;
  return nullptr;
}

int64_t int_attribute(const NodeProto& node, std::string_view name, int64_t otherwise) {
  const AttributeProto* found = find_attribute(node, name);
  return found ? found->i() : otherwise;
}

float float_attribute(const NodeProto& node, std::string_view name, float otherwise) {
  const AttributeProto* found = find_attribute(node, name);
  return found ? found->f() : otherwise;
}

}  // namespace fettle::quantize
