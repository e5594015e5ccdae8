#pragma once
// Graphs of single elements, by which general operators reduce, compare and update.

#include <optional>
#include <string_view>
#include <vector>

#include "graph/passes/lowering.h"

namespace fettle::ops {

using Values = std::vector<Value*>;

/// The operator with OpDef::body_names.
///   constexpr std::string_view kNames[] = {"select", "scatter"};
///   with_bodies(composite<select_and_scatter>("fettle.SelectAndScatter", {3, kAny}), kNames)
constexpr OpDef with_bodies(OpDef def, std::span<const std::string_view> names) {
  def.body_names = names;
  return def;
}
/// Of an operator that takes one.
inline constexpr std::string_view kBody[] = {"body"};

/// A node's body that takes elements, and then what it reads of the graph around: the node's last inputs.
struct ElementBody {
  const Node* node;
  const Graph* graph;
  Values captured;      // one for each input of the body behind the elements
  bool is_elementwise;  // each result is made of elements alone, by elementwise work
};
/// The node's body of this name. n_inputs: of the node, those captured left out. E606 there is none, or it takes or
/// returns another number.
Result<ElementBody> element_body(const Node& node, std::string_view name, size_t n_inputs, size_t n_elements,
                                 size_t n_results);

/// The same inside of a loop, which is given what the body captured.
ElementBody captured_by(passes::LoopBuilder& loop, ElementBody body);

/// Adds the body for all elements of tensors at once, and gives its results, in this shape. Elementwise work is done
/// element by element in one go; a body that does more runs once for each element, in a Loop.
Values of_elements(passes::NodeBuilder& nodes, const ElementBody& body, const Values& elements, const Shape& shape);

/// An operation of two elements that a body is.
struct Operation {
  std::string_view op;  // Add, Mul, Min, Max, And, Or
  DType dtype;          // in which it is done: what is given and the result are converted
};
/// What result i of the body is, where it is one such operation of elements `left` and `right` of this type. Numbers
/// may be converted to a type that has them all, and back.
std::optional<Operation> operation_of(const ElementBody& body, size_t i, size_t left, size_t right, DType dtype);
/// Which element result i of the body is, where it is one.
std::optional<size_t> chosen_element(const ElementBody& body, size_t i);
/// What a body that compares two elements is.
struct Comparison {
  size_t left, right;
  bool is_less;  // left < right; else left > right
};
std::optional<Comparison> comparison_of(const ElementBody& body);

/// Whether x is a constant that changes nothing: op(x, y) is y.
bool is_neutral(const Value& x, std::string_view op);
/// The operator that reduces by this operation.
std::string_view reducer_of(std::string_view op);

/// The dim as an i64 scalar.
Value* size_value(passes::NodeBuilder& nodes, const Dim& dim);

/// A new node's outputs are of these types: what follows may ask for them before types are inferred.
Values typed(const Node* node, const std::vector<TensorType>& types);

}  // namespace fettle::ops
