#pragma once
// Operators that other operators stand for (OpDef::lower).

#include <initializer_list>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "graph/op_util.h"
#include "graph/passes/node_builder.h"

namespace fettle::passes {

/// Adds the nodes that stand for one. Each is typed when it is added, so that what follows may ask for its shape. The
/// first that cannot be typed makes the lowering fail. What is added after it is a tensor of no meaning.
class Lowering {
 public:
  Lowering(Graph& graph, const Node& node) : node_(node), nodes_(graph, node.name + ".", node.provenance) {}

  /// A node's first output.
  Value* operator()(std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});
  std::vector<Value*> many(std::string_view op, std::vector<Value*> inputs, Attrs attrs, size_t n_outputs);

  Value* constant(ConstantTensor data) const { return nodes_.constant("constant", std::move(data)); }
  Value* number(double value, DType dtype) const { return constant(scalar(value, dtype)); }
  Value* ints(const std::vector<int64_t>& values) const { return constant(int_list(values)); }
  Value* index(int64_t value) const { return number(static_cast<double>(value), kI64); }
  /// An i64 scalar that is this dim; 0, 1, …, n-1.
  Value* size(const Dim& dim);
  Value* iota(const Dim& n) { return (*this)("Range", {index(0), index(0), index(1)}, {{{"count", dims_attr({n})}}}); }
  /// A scalar of this type, from the node's attribute.
  Value* attribute(std::string_view name, double otherwise, DType dtype) const {
    return number(node_.attrs.get_float(name, otherwise), dtype);
  }

  // Nodes that are asked for often. Those that would change nothing are left out.
  Value* cast(Value* x, DType dtype);
  Value* reshape(Value* x, Shape shape);
  Value* transpose(Value* x, std::vector<int64_t> perm) { return (*this)("Transpose", {x}, {{{"perm", perm}}}); }
  Value* unsqueeze(Value* x, std::vector<int64_t> axes) { return (*this)("Unsqueeze", {x}, {{{"axes", axes}}}); }
  Value* slice(Value* x, int64_t axis, Dim start, Dim end);
  Value* reduce(std::string_view op, Value* x, std::vector<int64_t> axes, bool keep_dims);

  // What comes to be known while the model runs (late_sizes.h).
  /// Integers in memory, as sizes that lie in [min, max]. A list has a fixed length, of at most 64.
  void make_sizes(Value* integers, int64_t min, int64_t max, int64_t typical = 0);
  /// The same with these dims, of which those that are no sizes must be what the integers are.
  void make_sizes(Value* integers, Shape dims);
  /// What integers in memory are: what is known of them, or sizes.
  std::vector<Dim> sizes(Value* integers, int64_t min = -kMaxDim, int64_t max = kMaxDim);
  /// x under the shape that a list of integers has.
  Value* reshape_by_data(Value* x, Value* shape);
  /// A call where the truth value does not hold fails, for this reason. E605 where it is known not to hold.
  void require(Value* truth, std::string reason);
  /// The same of each of a tensor's truth values.
  void require_all(Value* truths, std::string reason);
  /// make_sizes, and what the integers are: numbers, where they are known.
  std::vector<Dim> sizes_of(Value* value, int64_t min, int64_t max);

  /// Adds nodes that are not typed: what comes of them must be given its type before it is used.
  NodeBuilder& nodes() { return nodes_; }
  const std::vector<Node*>& added() const { return nodes_.added(); }
  Result<> status() const { return status_; }

 private:
  static constexpr size_t kMostDims = 64;
  /// A few numbers in a file must not become a graph without end.
  static constexpr size_t kMostNodes = 20'000;

  const Node& node_;
  NodeBuilder nodes_;
  Result<> status_;
  // Of so many dims that whoever asks for one finds it.
  Value nothing_{.name = "nothing", .type = TensorType{kF32, Shape(kMostDims, 1)}};
};

/// What the node's outputs are, made with `g`. Errors of nodes that were added need not be looked at.
using Expansion = Result<std::vector<Value*>> (*)(Lowering& g, const Node& node);

/// Every attribute that the node has is one of these. E606.
Result<> check_attributes(const Node& node, std::span<const std::string_view> known);
inline Result<> check_attributes(const Node& node, std::initializer_list<std::string_view> known) {
  return check_attributes(node, std::span(known.begin(), known.size()));
}
/// The node has these inputs, among which are some that may be missing. E606.
Result<> check_given(const Node& node, std::initializer_list<size_t> inputs);
/// Those of these attributes that the node has.
Attrs picked(const Node& node, std::span<const std::string_view> names);
inline Attrs picked(const Node& node, std::initializer_list<std::string_view> names) {
  return picked(node, std::span(names.begin(), names.size()));
}

/// x as u8, by its own extremes, as DynamicQuantizeLinear has it.
struct Quantized {
  Value *y, *scale, *zero;
};
Quantized dynamically_quantized(Lowering& g, Value* x);

/// Whether integers that a parameter needs come to be known while the model runs. Sizes may stand for those of kDims.
bool lacks_content(const Node& node);

// Of what attention is made of.
/// x with its last two axes in the other order.
Value* swapped(Lowering& g, Value* x);
/// 0, 1, … as many as x's extent along the axis.
Value* count_up(Lowering& g, Value* x, int64_t axis);
/// [b, n, s, w], each of whose heads is there for `heads` / n of another tensor's, as [b, heads, s, w]. E605.
Result<Value*> repeated_heads(Lowering& g, const Node& node, Value* x, const Dim& heads);

/// OpDef::lower of an expansion.
Result<std::vector<Node*>> lower_node(Graph& graph, Node* node, Expansion expansion);

/// An operator that an expansion stands for. params: inputs whose content the expansion asks for.
template <Expansion F>
constexpr OpDef composite(std::string_view name, ops::InputCount inputs, int n_outputs = 1,
                          std::span<const ParamInput> params = {}) {
  return ops::define(FusionKind::kOpaque, name, inputs, ops::not_lowered, nullptr,
                     {.lower = [](Graph& graph, Node* node) { return lower_node(graph, node, F); },
                      .params = params,
                      .n_outputs = n_outputs});
}

/// The operator, whose nodes an expansion stands for where they depend on data.
template <Expansion F, bool (*When)(const Node& node) = lacks_content>
constexpr OpDef by_data(OpDef op) {
  op.lower_by_data = [](Graph& graph, Node* node) -> Result<std::optional<std::vector<Node*>>> {
    if (!When(*node)) return std::nullopt;
    FETTLE_TRY(auto added, lower_node(graph, node, F));
    return added;
  };
  return op;
}

}  // namespace fettle::passes
