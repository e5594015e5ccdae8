#pragma once
// How a model file becomes a graph: what import.cpp, import_nodes.cpp, import_functions.cpp, import_control.cpp and
// structures.cpp share.

#include <functional>
#include <map>
#include <memory>
#include <optional>
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
using onnx::FunctionProto;
using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;

inline constexpr int kMaxCallDepth = 64;

bool is_standard_domain(const std::string& domain);
/// The node's name, or that of what it makes.
std::string node_label(const NodeProto& node);
/// The kind of an attribute's value; files of the first version of the format leave it out.
AttributeProto::AttributeType kind_of(const AttributeProto& attribute);
std::string kind_name(int kind);  // "ints"
/// "Conv", "com.microsoft.FusedConv"
std::string op_label(const NodeProto& node);
/// Whether it is of an operator that is read, of whatever opset.
bool is_known_operator(const NodeProto& node);

/// The graph that is being read: the model's, or a body in one around it.
struct Scope {
  Graph graph;
  std::unordered_map<std::string, Value*> values;  // by the model's names; null: an input that a call leaves out
  std::unordered_map<std::string, Structure> structures;
  Scope* around = nullptr;  // whose names are seen: null within a function
  Scope* parent = nullptr;  // whose graph it is a body in
  int depth = 0;
  bool repeats = false;    // the body of a loop
  Value* calls = nullptr;  // how many calls there were before, where random numbers ask for it
  struct Captured {
    Value *outside, *inside;
  };
  std::vector<Captured> captured;                          // from around: the body's last inputs
  std::vector<std::pair<std::string, Structure>> results;  // of a body, by the model's names
};

/// "X.data", "X.dims": the names of the tensors of what is called X; of what has no name, nothing.
std::vector<std::string> tensor_names(const std::string& name, const StructureKind& kind);
void append_tensors(std::vector<Value*>& list, const Structure& structure);

/// An attribute of a node, under the node's name for it. Within a function the value may be what its call gives.
struct NamedAttribute {
  std::string_view name;
  const AttributeProto* value;
};

/// A call of one of the model's own functions, which is being inlined.
struct Call {
  const FunctionProto* function;
  std::map<std::string, const AttributeProto*, std::less<>> attributes;  // those that are given, or have a default
};

class Importer {
 public:
  Importer(const OnnxModel& model, const InputNames& given, const Limits& limits)
      : model_(model.proto), files_(model.data, limits), given_(given), limits_(limits) {}

  Result<Graph> run();

 private:
  using Nodes = google::protobuf::RepeatedPtrField<NodeProto>;

  // import.cpp: the model, what goes in and comes out
  Result<int> opset_of(const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports, const Nodes& nodes,
                       int otherwise) const;
  Result<> add_input(const onnx::ValueInfoProto& input);
  Result<> add_outputs(const GraphProto& proto);
  /// What the file says of the types of values that are made.
  void declare_types(const GraphProto& proto);
  bool is_given(const GraphProto& graph, const std::string& name) const;
  Result<> add_initializers(const GraphProto& graph);
  Result<ConstantTensor> read_constant(const onnx::TensorProto& tensor);
  Result<ConstantTensor> read_sparse_constant(const onnx::SparseTensorProto& tensor);
  Result<ConstantTensor> counted(ConstantTensor data, const std::string& name);
  Result<> define(const std::string& name, Value* value, const std::string& where);
  /// A shape of the model's; own_sizes: open extents are this input's alone, whatever they are called.
  Result<Shape> read_shape(const onnx::TensorShapeProto& shape, const std::string& input, bool own_sizes) const;
  /// The tensor of this name, or null.
  static Value* find(const std::string& name, Scope& scope);
  /// A value of the graph around, in the body.
  static Value* capture(const std::string& name, Value* outside, Scope& scope);
  Value* find(const std::string& name) { return find(name, *scope_); }
  /// Whether it is an input of a function that the call leaves out.
  bool is_left_out(const std::string& name) const;

  // import_nodes.cpp
  Result<> add_nodes(const Nodes& nodes);
  Result<> add_constant(const NodeProto& node);
  /// The node's name as the graph has it: with those of the calls around. Its outputs' likewise, where they have names.
  std::string label_of(const NodeProto& node) const { return path_ + node_label(node); }
  std::string output_name(const NodeProto& node, int i) const;
  std::vector<std::string> output_names(const NodeProto& node) const;
  /// E606 one is stated twice, or speaks of a function's attribute where there is none.
  Result<std::vector<NamedAttribute>> attributes_of(const NodeProto& node) const;
  Result<AttrValue> read_attribute(const NodeProto& node, const NamedAttribute& attribute);
  /// All of them, but for graphs of these names.
  Result<Attrs> read_attributes(const NodeProto& node, std::span<const std::string_view> graphs = {});
  Result<std::vector<Value*>> find_inputs(const NodeProto& node);
  /// A node of the graph, for one of the model. E606 where inputs are missing or too many.
  Result<Node*> add_operator(const NodeProto& proto, const OpDef* op, const std::string& name,
                             std::vector<Value*> inputs, Attrs attrs, std::vector<std::string> outputs);
  /// The same, with the model's name and attributes.
  Result<Node*> add_operator(const NodeProto& proto, const OpDef* op, std::vector<Value*> inputs,
                             std::vector<std::string> outputs);
  Result<> add_node(const NodeProto& proto);
  Result<> finish(const NodeProto& proto, Node* made);
  /// How many calls of the model there were before, in this scope: a state of the model (docs/operators.md).
  /// E603 in a loop, all of whose iterations would have the same
  static Result<Value*> calls_in(Scope& scope);

  // import_functions.cpp: functions of the model's own
  Result<> index_functions();
  /// The function that the node calls, or null. An operator of ONNX's own domains is never a function.
  const FunctionProto* function_of(const NodeProto& node) const;
  /// E603 nodes of the model, also in bodies and in functions that are called, are of operators that are not known.
  Result<> check_operators() const;
  /// How many nodes there are when calls are inlined, bodies included. E605 a function calls itself · E608 too many
  struct Extent {
    int64_t nodes = 0;
    int depth = 0;  // of calls in calls
  };
  Result<Extent> measure(const Nodes& nodes, int around = 0);
  /// Puts the function's nodes in the call's place.
  Result<> add_call(const FunctionProto& function, const NodeProto& node);

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
  /// The same in another graph, where `capture` gives what stands for values of this one.
  using Capture = std::function<Value*(Value* outside)>;
  Node* add_control(Graph& graph, const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                    std::vector<Scope>& bodies, std::vector<std::string> outputs, const Capture& capture);
  Result<> add_branch(const NodeProto& node);
  Result<> add_loop(const NodeProto& node);
  Result<> add_scan(const NodeProto& node);
  /// The body of a Scan, whose attributes these are.
  Result<Attrs> read_scan(const NodeProto& node, const std::vector<Value*>& inputs, Scope& body);
  /// A Scan of opset 8, of batches: a Loop over these, of Scans.
  Result<> add_batched_scan(const NodeProto& node);
  /// A node of an operator that takes graphs.
  Result<> add_with_bodies(const NodeProto& node);

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
  std::map<std::string, const FunctionProto*> functions_;                    // by domain, name and overload
  std::unordered_map<const FunctionProto*, std::optional<Extent>> extents_;  // nothing while they are measured
  const Limits& limits_;
  int64_t constant_bytes_ = 0;
  Scope* scope_ = nullptr;
  const Call* call_ = nullptr;                  // the innermost
  std::string path_;                            // "layer/attention/": names of the calls
  std::unordered_map<std::string, int> paths_;  // that were given, and how often their names were asked for again
  int opset_ = 0;                               // of the nodes that are being read
};

}  // namespace fettle::onnx_reader
