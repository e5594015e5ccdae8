#pragma once
// How a model file becomes a graph: what its parts (import.cpp, import_nodes.cpp, import_control.cpp) share.

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/tensor_reader.h"
#include "graph/op.h"
#include "onnx-ml.pb.h"

namespace fettle::onnx_reader {

using onnx::AttributeProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;

bool is_standard_domain(const std::string& domain);
/// The node's name, or that of what it makes.
std::string node_label(const NodeProto& node);
/// "Conv", "com.microsoft.FusedConv"
std::string op_label(const NodeProto& node);

/// The graph that is being read: the model's, or a body in one around it.
struct Scope {
  Graph graph;
  std::unordered_map<std::string, Value*> values;  // by the model's names
  Scope* around = nullptr;
  int depth = 0;
  std::vector<std::pair<std::string, Value*>> captured;  // from around, by their names: the body's inputs
};

class Importer {
 public:
  Importer(std::shared_ptr<const ModelProto> model, const std::string& folder, const InputNames& given,
           const Limits& limits)
      : model_(std::move(model)), files_(folder, limits), given_(given), limits_(limits) {}

  Result<Graph> run();

 private:
  // import.cpp: the model, what goes in and comes out
  Result<> read_opset();
  Result<> add_input(const onnx::ValueInfoProto& input);
  Result<> add_outputs(const GraphProto& proto);
  /// What the file says of the types of values that are made.
  void declare_types(const GraphProto& proto);
  bool is_given(const GraphProto& graph, const std::string& name) const;
  Result<> add_initializers(const GraphProto& graph);
  Result<ConstantTensor> read_constant(const onnx::TensorProto& tensor);
  Result<> define(const std::string& name, Value* value, const std::string& where);
  static Value* find(const std::string& name, Scope& scope);
  Value* find(const std::string& name) { return find(name, *scope_); }

  // import_nodes.cpp
  Result<> check_operators(const GraphProto& graph);
  Result<> add_nodes(const GraphProto& graph);
  Result<> add_constant(const NodeProto& node);
  Result<AttrValue> read_attribute(const AttributeProto& a);
  Result<std::vector<Value*>> find_inputs(const NodeProto& node);
  Result<> add_node(const NodeProto& proto);
  Result<> finish(const NodeProto& proto, Node* made);

  // import_control.cpp: nodes with bodies
  /// One of a node's graphs. `n_inputs` of its inputs are its own; those that it captures follow.
  Result<> read_body(const NodeProto& node, std::string_view name, Scope& scope, int n_inputs);
  /// Adds what the bodies captured to the node's inputs, in one order, and the bodies to the node.
  Node* add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                    std::vector<Scope>& bodies, std::vector<std::string> outputs);
  Result<> add_branch(const NodeProto& node);
  Result<> add_loop(const NodeProto& node);
  Result<> add_scan(const NodeProto& node);

  std::shared_ptr<const ModelProto> model_;
  ExternalFiles files_;
  const InputNames& given_;
  const Limits& limits_;
  int64_t constant_bytes_ = 0;
  Scope* scope_ = nullptr;
  int opset_ = 0;
};

}  // namespace fettle::onnx_reader
