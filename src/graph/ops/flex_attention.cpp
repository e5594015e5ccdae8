// FlexAttention: attention whose scores and probabilities a model changes by graphs of its own.

#include <fmt/format.h>

#include <cmath>

#include "graph/control.h"
#include "graph/ops/bodies.h"
#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using namespace passes;

// x after the body of this name, which the node may have: it takes x, and then what it reads of the graph around.
Result<Value*> modified(Lowering& g, const Node& node, std::string_view name, Value* x) {
  const auto found = std::ranges::find_if(node.bodies, [&](const auto& body) { return body->name() == name; });
  if (found == node.bodies.end()) return x;
  const Graph& body = **found;
  std::vector<Value*> arguments(node.inputs.begin() + 2, node.inputs.end());
  arguments[0] = x;
  if (body.outputs().size() != 1 || body.inputs().size() != arguments.size())
    return bad_types(node, fmt::format("{} does not take one tensor and return one", name));
  std::vector<Node*> added;
  Value* result = inline_body(g.nodes().graph(), body, arguments, node.provenance, &added)[0];
  for (Node* inner : added) {
    const Provenance own = inner->provenance;
    g.nodes().remember(inner);
    inner->provenance.merge(own);
  }
  if (!result->type) result->type = x->type;  // until its node is typed
  return g("SameTypeAs", {result, x});
}

// SameTypeAs(y, x): y, which must be of x's type. Of Fettle's own.
Types same_type_as(const Node& node) {
  FETTLE_TRY_VOID(check_type(node, node.inputs[0], "what a graph makes of its input", type_of(node, 1)));
  return one_type(dtype_of(node, 1), shape_of(node, 1));
}
Tensors first_input(const Node& node, std::span<const te::Tensor> in) {
  return one(map_output(node, [&](const Indices& i) { return in[0](i); }));
}

// (q, k, v) → softmax(score_mod(q · kᵀ * scale)), changed by prob_mod, · v
// Several heads of q may share one of k and v.
Result<std::vector<Value*>> flex_attention(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_attributes(node, {"scale", "softmax_precision"}));
  if (node.bodies.empty() && node.inputs.size() != 3)
    return bad_attribute(node, fmt::format("it has {} inputs", node.inputs.size()));
  for (size_t i = 0; i < 3; ++i) FETTLE_TRY_VOID(check_rank(node, i, 4, 4));
  FETTLE_TRY_VOID(check_same_dtype(node, 0, 2));
  const DType dtype = dtype_of(node, 0);
  if (!dtype.is_float()) return bad_types(node, "Q is not floating point");
  DType precision = dtype == kF64 ? kF64 : kF32;
  if (node.attrs.has("softmax_precision")) {
    const auto stated = element_type(node.attrs.get_int("softmax_precision", 0));
    if (!stated || !stated->is_float()) return bad_attribute(node, "softmax_precision is no type of floats");
    precision = *stated;
  }
  Value *q = node.inputs[0], *k = node.inputs[1], *v = node.inputs[2];
  const Shape &of_q = q->shape(), of_v = v->shape();
  FETTLE_TRY_VOID(check_type(node, k, "K", {dtype, {of_q[0], of_v[1], of_v[2], of_q[3]}}));
  FETTLE_TRY_VOID(check_type(node, v, "V", {dtype, {of_q[0], of_v[1], of_v[2], of_v[3]}}));
  FETTLE_TRY(k, repeated_heads(g, node, k, of_q[1]));
  FETTLE_TRY(v, repeated_heads(g, node, v, of_q[1]));
  if (node.attrs.has("scale")) {
    q = g("Mul", {q, g.attribute("scale", 1, dtype)});
  } else if (of_q[3].is_number()) {
    q = g("Mul", {q, g.number(1 / std::sqrt(static_cast<double>(of_q[3].value())), dtype)});
  } else {
    Value* width = g("Gather", {g("Shape", {q}), g.constant(reshaped(int_list(std::vector<int64_t>{3}), {}))});
    q = g("Div", {q, g.cast(g("Sqrt", {g.cast(width, kF32)}), dtype)});
  }
  Value* scores = g.cast(g("MatMul", {q, swapped(g, k)}), precision);
  FETTLE_TRY(scores, modified(g, node, "score_mod", scores));
  Value* likely = g("Softmax", {scores}, {{{"axis", int64_t{-1}}}});
  FETTLE_TRY(likely, modified(g, node, "prob_mod", likely));
  return std::vector{g.cast(g("MatMul", {likely, g.cast(v, precision)}), dtype)};
}

constexpr std::string_view kGraphs[] = {"score_mod", "prob_mod"};

constexpr OpDef flex_attention_defs[] = {
    define(kElementwise, "SameTypeAs", 2, same_type_as, first_input, {.work = kMoves, .is_copy = always}),
    with_bodies(composite<flex_attention>("ai.onnx.preview.FlexAttention", {3, kAny}), kGraphs),
};

}  // namespace

extern constinit const OpFamily flex_attention_ops{"flex_attention", flex_attention_defs};

}  // namespace fettle
