#pragma once
// The model as a graph in SSA form: values made once, by a node, as an input or as a constant.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "base/result.h"
#include "graph/constant.h"
#include "graph/dim.h"
#include "graph/provenance.h"

namespace fettle {

class Graph;
struct Node;
struct OpDef;

struct TensorType {
  DType dtype;
  Shape shape;
  friend bool operator==(const TensorType&, const TensorType&) = default;
  std::string to_string() const;  // "f32[N, 3, 48, 320]"
};

/// One tensor of the model.
struct Value {
  std::string name;                        // unique in its graph
  std::optional<TensorType> type;          // unknown until shapes are inferred
  std::optional<ConstantTensor> constant;  // the content, where it is known before the model runs
  /// The elements of a small integer tensor that is not fully constant, of rank 2 at most, row by row: shape arithmetic
  /// over symbols.
  std::optional<std::vector<Dim>> content;
  Node* producer = nullptr;  // null for inputs and constants
  int producer_output = 0;   // index among the producer's outputs
  std::vector<Node*> users;  // one entry for each use; kept by Graph
  int output_uses = 0;       // by the graph's outputs; kept by Graph
  /// What the model's file says that the type is: inference must come to nothing that contradicts it.
  std::optional<TensorType> declared;

  bool is_constant() const { return constant.has_value(); }
  bool is_static() const { return type && fettle::is_static(type->shape); }
  DType dtype() const { return type->dtype; }
  const Shape& shape() const { return type->shape; }
  int rank() const { return static_cast<int>(type->shape.size()); }
  /// Extent d (negative: from the end) as a number; the dim must be one.
  int64_t extent(int d) const { return type->shape[static_cast<size_t>(d < 0 ? d + rank() : d)].value(); }
  /// All extents; is_static() must hold.
  std::vector<int64_t> extents() const;
};

/// Dims are integers some of which are sizes: those that are all numbers are int64_t.
using AttrValue = std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>,
                               std::vector<std::string>, ConstantTensor, std::vector<Dim>>;
/// An attribute of integers, some of which may be sizes.
AttrValue dims_attr(std::vector<Dim> dims);

/// Attributes of a node, sorted by name. The names and meanings are ONNX's, of the newest opset that Fettle knows.
struct Attrs {
  std::vector<std::pair<std::string, AttrValue>> entries;

  Attrs() = default;
  Attrs(std::initializer_list<std::pair<std::string, AttrValue>> list) {
    for (const auto& [name, value] : list) set(name, value);
  }

  const AttrValue* find(std::string_view name) const;
  bool has(std::string_view name) const { return find(name) != nullptr; }
  void set(std::string name, AttrValue value);
  bool erase(std::string_view name);

  // The attribute, or `otherwise` where it is missing (or of another type: validate() reports that).
  int64_t get_int(std::string_view name, int64_t otherwise) const;
  double get_float(std::string_view name, double otherwise) const;
  std::string get_string(std::string_view name, std::string otherwise) const;
  std::vector<int64_t> get_ints(std::string_view name, std::vector<int64_t> otherwise = {}) const;
  const ConstantTensor* get_tensor(std::string_view name) const;

  friend bool operator==(const Attrs&, const Attrs&) = default;
};

/// One operation. Inputs that an operator leaves out are null.
struct Node {
  std::string name;           // unique in its graph
  const OpDef* op = nullptr;  // op.h
  Attrs attrs;
  std::vector<Value*> inputs;  // change through Graph::set_input only
  std::vector<Value*> outputs;
  /// Of control flow: graphs that it runs. They see nothing from outside but their inputs, which the node's inputs give
  /// (op.h says how), and constants of their own. Each belongs to this node alone.
  std::vector<std::shared_ptr<Graph>> bodies;
  /// The model's nodes that this one does the work of, or whose result it has in itself as a number; passes merge them.
  Provenance provenance;
  bool erased = false;  // no longer in the graph; freed by the next sort()
  size_t position = 0;  // among the graph's nodes, since the last sort() or validate()

  Value* input(size_t i) const { return i < inputs.size() ? inputs[i] : nullptr; }
  Value* output(size_t i = 0) const { return outputs[i]; }
};

/// What the sizes of a model's inputs must fulfil, which cannot be told before they are known.
struct SizeCheck {
  Dim value;  // must be 0, or not negative
  bool is_zero = true;
  std::string message;  // "MatMul \"scores\": S and T must be equal"
};

/// A tensor that outlives a call: what one call leaves in an output is an input of the next. It lies in memory of its
/// `capacity`, of which it fills a part along `axis`; or all of it, where no axis grows (-1).
struct GraphState {
  Value* input = nullptr;
  int output = 0;  // which of the graph's
  int axis = -1;
  std::vector<int64_t> capacity;
};

/// Values of a size, ascending, for which kernels are made: each for the sizes about it, the last also for all above.
struct SizeClasses {
  Dim size;
  std::vector<int64_t> points;
};

/// An input or output of the model that is no tensor (docs/structures.md): the graph's that it is made of lie side by
/// side, from `first` on.
struct GraphStructure {
  std::string name;
  std::string type;  // as ONNX writes it: "seq(tensor(float))"
  bool is_output = false;
  int first = 0, count = 0;
};

/// Of a file of functions: which one a graph is, and what all are called that it could be. Empty: there are none.
struct GraphFunction {
  std::string name;
  std::vector<std::string> all;
};

struct GraphOutput {
  std::string name;  // the model's name for it, which survives passes
  Value* value = nullptr;
};

/// Owns its nodes and values: pointers stay good until the node or value is erased and sort() is called. Moves, does
/// not copy; see clone().
class Graph {
 public:
  Graph() = default;
  explicit Graph(std::string name) : name_(std::move(name)) {}
  Graph(Graph&&) = default;
  Graph& operator=(Graph&&) = default;

  const std::string& name() const { return name_; }
  const GraphFunction& function() const { return function_; }
  void set_function(GraphFunction function) { function_ = std::move(function); }
  const std::vector<SizeCheck>& size_checks() const { return size_checks_; }
  const std::vector<GraphState>& states() const { return states_; }
  void add_state(GraphState state) { states_.push_back(std::move(state)); }
  const std::vector<SizeClasses>& size_classes() const { return size_classes_; }
  void add_size_classes(SizeClasses classes) { size_classes_.push_back(std::move(classes)); }
  const std::vector<GraphStructure>& structures() const { return structures_; }
  void add_structure(GraphStructure structure) { structures_.push_back(std::move(structure)); }
  /// Of equal values one is kept.
  void add_size_check(SizeCheck check);
  /// Drops all but the first ones.
  void keep_size_checks(size_t count);
  /// `name`, or with a suffix where a size is called so that was taken.
  std::string unique_size_name(const std::string& name);
  /// What sizes of the inputs are called is taken.
  void take_size_names();
  bool is_size_name(std::string_view name) const;
  /// Rules and classes over other sizes; rules that hold for all sizes go, and classes of what is no size any more.
  void replace_sizes(const std::function<Dim(const Dim&)>& replaced);
  const std::vector<Value*>& inputs() const { return inputs_; }
  const std::vector<GraphOutput>& outputs() const { return outputs_; }
  /// In topological order after sort(); until then what was added last is last, erased nodes included.
  const std::vector<Node*>& nodes() const { return nodes_; }
  Value* find_value(std::string_view name) const;
  Value* find_input(std::string_view name) const;

  // Names that are taken get a suffix (".1").
  Value* add_input(std::string name, TensorType type);
  /// Of a body: its type is that of what the node gives.
  Value* add_input(std::string name);
  Value* add_constant(std::string name, ConstantTensor data);
  /// The outputs are named after the node ("conv1", "split.1") unless names are given; their types are unknown.
  Node* add_node(const OpDef* op, std::string name, std::vector<Value*> inputs, Attrs attrs = {},
                 std::vector<std::string> output_names = {}, size_t n_outputs = 1);
  /// A copy of a node of any graph, with bodies of its own, over `inputs`.
  Node* add_copy(const Node& node, std::vector<Value*> inputs);
  void add_output(std::string name, Value* value);

  void set_input(Node* node, size_t i, Value* value);
  /// Output i is another value, under the same name.
  void set_output(size_t i, Value* value);
  /// Puts these inputs behind all others, in this order.
  void order_last_inputs(const std::vector<Value*>& last);
  /// An input of the graph that nothing uses; those behind it move up.
  void remove_input(size_t i);
  /// The node's input i; those behind it move up.
  void remove_input(Node* node, size_t i);
  /// Drops inputs from `count` on.
  void resize_inputs(Node* node, size_t count);
  /// Every use of `from`, as a graph output too, becomes one of `to`.
  void replace_uses(Value* from, Value* to);
  /// The same of each pair (from, to); nodes `gone`, whose outputs are among `from`, are erased: in the time that
  /// the graph's size takes. No `to` is replaced.
  void replace_uses(const std::vector<std::pair<Value*, Value*>>& pairs, const std::vector<Node*>& gone);
  /// `by` takes the place of the node's first output: replaces the uses, erases the node if nothing else of it is used.
  /// Who makes `by` does its work from now on; where that is an input or a constant, those who used the node do.
  void replace_node(Node* node, Value* by);
  /// The value must have no users; it is removed from its uses' lists.
  void erase(Node* node);
  bool is_output(const Value* value) const { return value->output_uses > 0; }
  /// Uses by nodes and as graph outputs.
  size_t use_count(const Value* value) const { return value->users.size() + static_cast<size_t>(value->output_uses); }

  /// Sorts nodes topologically (stable in the order of insertion), frees erased nodes and values that nothing uses. Who
  /// speaks of a size comes after the node that defines it (late_sizes.h).
  void sort();
  Graph clone() const;

 private:
  std::string unique_name(std::string name);

  std::string name_;
  GraphFunction function_;
  std::vector<SizeCheck> size_checks_;
  std::vector<GraphState> states_;
  std::vector<SizeClasses> size_classes_;
  std::vector<GraphStructure> structures_;
  std::vector<Value*> inputs_;
  std::vector<GraphOutput> outputs_;
  std::vector<Node*> nodes_;
  std::vector<std::unique_ptr<Node>> node_store_;
  std::vector<std::unique_ptr<Value>> value_store_;
  // Owned names, so that the graph moves freely.
  struct Names;
  std::shared_ptr<Names> names_, size_names_;
  std::unordered_set<std::string> check_keys_;  // of size_checks_
};

/// Calls `visit` with the graph and, before it, with the bodies of its nodes, innermost first.
template <typename G, typename Visit>
void for_each_graph(G& graph, const Visit& visit) {
  for (const Node* node : graph.nodes())
    for (const std::shared_ptr<Graph>& body : node->bodies) for_each_graph<G>(*body, visit);
  visit(graph);
}

void merge_provenance(Node* to, const Node* from);
/// For a node that goes because its results are known: those who use them stand for it.
void hand_provenance_to_users(const Node* node);
/// Checks what every pass must keep: topological order, producers and users that agree, unique names, and numbers of
/// inputs and outputs as the operators say. With `typed`, every value must have a type, and shapes must agree with the
/// operators' rules. E605.
Result<> validate(const Graph& graph, bool typed);

/// One line a node: "conv1: f32[1, 16, 24, 160] = Conv(x, w, b) {group=1, …}"; with its origins, a second one.
std::string to_text(const Graph& graph, bool with_origins = false);
/// "Conv 38, Mul 20, …", most frequent first.
std::string histogram(const Graph& graph);

}  // namespace fettle
