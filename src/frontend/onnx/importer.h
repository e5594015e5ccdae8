#pragma once
// How a model file becomes a graph: what its parts (import.cpp, import_nodes.cpp, import_control.cpp) share.

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frontend/onnx/import.h"
#include "frontend/onnx/structures.h"
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
  std::unordered_map<std::string, Structure> structures;
  Scope* around = nullptr;
  int depth = 0;
  struct Captured {
    Value *outside, *inside;
  };
  std::vector<Captured> captured;                          // from around: the body's last inputs
  std::vector<std::pair<std::string, Structure>> results;  // of a body, by the model's names
};

/// "X.data", "X.dims": the names of the tensors of what is called X; of what has no name, nothing.
std::vector<std::string> tensor_names(const std::string& name, const StructureKind& kind);
void append_tensors(std::vector<Value*>& list, const Structure& structure);

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
  /// A shape of the model's; own_sizes: open extents are this input's alone, whatever they are called.
  Result<Shape> read_shape(const onnx::TensorShapeProto& shape, const std::string& input, bool own_sizes) const;
  /// The tensor of this name, or null.
  static Value* find(const std::string& name, Scope& scope);
  /// A value of the graph around, in the body.
  static Value* capture(const std::string& name, Value* outside, Scope& scope);
  Value* find(const std::string& name) { return find(name, *scope_); }

  // import_nodes.cpp
  Result<> check_operators(const GraphProto& graph);
  Result<> add_nodes(const GraphProto& graph);
  Result<> add_constant(const NodeProto& node);
  Result<AttrValue> read_attribute(const AttributeProto& a);
  Result<std::vector<Value*>> find_inputs(const NodeProto& node);
  /// A node of the graph, for one of the model. E606 where inputs are missing or too many.
  Result<Node*> add_operator(const NodeProto& proto, const OpDef* op, const std::string& name,
                             std::vector<Value*> inputs, Attrs attrs, std::vector<std::string> outputs);
  /// The same, with the model's name and attributes.
  Result<Node*> add_operator(const NodeProto& proto, const OpDef* op, std::vector<Value*> inputs,
                             std::vector<std::string> outputs);
  Result<> add_node(const NodeProto& proto);
  Result<> finish(const NodeProto& proto, Node* made);

  // import_control.cpp: nodes with bodies
  /// One of a node's graphs. Its own inputs are of these kinds; those that it captures follow. What it returns are its
  /// scope's results, which return_from makes outputs of its graph.
  Result<> read_body(const NodeProto& node, std::string_view name, Scope& scope,
                     const std::vector<StructureKind>& inputs);
  /// The body's result i becomes outputs of its graph, as this kind.
  Result<> return_from(Scope& scope, size_t i, const StructureKind& kind);
  /// Adds what the bodies captured to the node's inputs, in one order, and the bodies to the node.
  Node* add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                    std::vector<Scope>& bodies, std::vector<std::string> outputs);
  Result<> add_branch(const NodeProto& node);
  Result<> add_loop(const NodeProto& node);
  Result<> add_scan(const NodeProto& node);

  // structures.cpp: what is no tensor
  Result<> define(const std::string& name, Structure structure, const std::string& where);
  /// The node's outputs, of these kinds, by the model's names.
  Result<> define_outputs(const NodeProto& proto, const Node* made, const std::vector<StructureKind>& kinds);
  static std::optional<Structure> find_structure(const std::string& name, Scope& scope);
  /// The node's inputs; one that is left out is a tensor that is null.
  Result<std::vector<Structure>> find_structures(const NodeProto& node);
  Result<> add_structure_input(const onnx::ValueInfoProto& input);
  Result<> add_structure_output(const onnx::ValueInfoProto& output, const Structure& value);
  Result<> add_result(const std::string& name, const Structure& result);
  /// The same as an optional, or what an optional holds. E605 where the content is of another kind.
  Result<Structure> as_kind(const Structure& given, const StructureKind& kind, const std::string& name);
  /// False: it is a node of tensors.
  Result<bool> add_structure_node(const NodeProto& proto);
  Result<> add_optional_node(const NodeProto& proto, const std::vector<Structure>& inputs);
  Result<Structure> absent(const onnx::TypeProto& type, const std::string& name);
  Result<> add_sequence_map(const NodeProto& node);

  std::shared_ptr<const ModelProto> model_;
  ExternalFiles files_;
  const InputNames& given_;
  const Limits& limits_;
  int64_t constant_bytes_ = 0;
  Scope* scope_ = nullptr;
  int opset_ = 0;
};

}  // namespace fettle::onnx_reader
