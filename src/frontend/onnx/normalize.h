#pragma once
// Operators of older opsets → their newest form.

#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace fettle::onnx_reader {

/// A node of the model on its way into the graph.
struct ModelNode {
  std::string op;
  std::string name;
  std::vector<Value*> inputs;
  Attrs attrs;
  std::vector<std::string> outputs;  // empty: not used
};

/// The operator that this one, of an older opset or of another domain, is a form of; or itself.
std::string_view newest_name(std::string_view op);

/// Rewrites the node into the newest opset's form, where attributes may stand for the inputs that replaced them (the
/// attribute of ParamInput). What is dropped: attributes that only training uses.
///   Squeeze-11(x) {axes}            stays (axes is also the attribute of Squeeze-13's second input)
///   Softmax-11(x) {axis=1}      →   Softmax(x) {axis=1, coerced=1}: all dims from `axis` on are one
///   Upsample-9(x, scales)       →   Resize(x, -, scales) {coordinate_transformation_mode=asymmetric, …}
///   Dropout(x)                  →   Identity(x), unless it trains
///   Add-6(x, y) {axis=1}        →   Add(x, AlignedTo(y, x) {axis=1})
/// graph: what the node comes to, and nodes before it.
/// E603 a form that has no counterpart · E606 an attribute is invalid
Result<> normalize(ModelNode& node, int opset, Graph& graph);
/// Whether the node, which is normalised, draws random numbers: by its seed or, without one, by the number of the call,
/// which is its last input.
inline bool is_random(const ModelNode& node) { return node.attrs.has("stream"); }

}  // namespace fettle::onnx_reader
