#include <fmt/format.h>

#include <algorithm>

#include "graph/control.h"
#include "graph/op_util.h"
#include "graph/passes/fold_node.h"
#include "graph/passes/lower_scan.h"
#include "graph/passes/passes.h"

namespace fettle::passes {

// Contents beyond this are no shape arithmetic.
constexpr size_t kMaxContent = 64;

std::optional<std::vector<Dim>> known_content(const Node& node) {
  const Value& output = *node.outputs[0];
  if (!node.op->content || node.outputs.size() != 1 || !output.is_static() || output.rank() > 1) return std::nullopt;
  const DType dtype = output.dtype();
  if (!dtype.is_bool() && (!dtype.is_int() || dtype.bits < 32)) return std::nullopt;
  auto content = node.op->content(node);
  if (!content || content->size() > kMaxContent) return std::nullopt;
  const Dim count = element_count(output.shape());
  if (static_cast<int64_t>(content->size()) != count.value()) return std::nullopt;
  for (const Dim& d : *content)  // dims saturate: what large numbers become is not known
    if (d.is_number() && std::abs(d.value()) >= kMaxDim) return std::nullopt;
  return content;
}

namespace {

Result<ConstantTensor> to_constant(const Value& value, const std::vector<int64_t>& numbers) {
  FETTLE_TRY(TensorBuilder tensor, make_tensor(value.dtype(), value.extents()));
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (value.dtype().is_bool())
      tensor.elems<uint8_t>()[i] = numbers[i] != 0;
    else if (value.dtype().bits == 64)
      tensor.elems<int64_t>()[i] = numbers[i];
    else
      tensor.elems<int32_t>()[i] = static_cast<int32_t>(numbers[i]);
  }
  return std::move(tensor).finish();
}

// The attribute that stands for a constant input.
std::optional<AttrValue> as_attribute(const ConstantTensor& data, ParamInput::Kind kind) {
  using Kind = ParamInput::Kind;
  constexpr double kExact = 9007199254740992.0;  // 2^53
  switch (kind) {
    case Kind::kInts:
      return AttrValue(to_ints(data));
    case Kind::kInt:
      return data.n_elems() == 1 ? std::optional<AttrValue>(data.int_at(0)) : std::nullopt;
    case Kind::kFloats:
      return AttrValue(to_doubles(data));
    case Kind::kFloat:
      if (data.n_elems() != 1 || (data.dtype.is_int() && std::abs(data.at(0)) >= kExact)) return std::nullopt;
      return AttrValue(data.at(0));
    case Kind::kTensor:
      return AttrValue(data);
  }
  return std::nullopt;
}

void settle_params(Graph& graph, Node* node) {
  for (const ParamInput& param : node->op->params) {
    const auto i = static_cast<size_t>(param.index);
    const Value* input = node->input(i);
    if (!input) continue;
    std::optional<AttrValue> value;
    if (input->is_constant())
      value = as_attribute(*input->constant, param.kind);
    else if (input->content && (param.kind == ParamInput::Kind::kInts || param.kind == ParamInput::Kind::kInt))
      value = dims_attr(*input->content);
    if (!value) continue;
    node->attrs.set(std::string(param.attr), std::move(*value));
    graph.set_input(node, i, nullptr);
  }
  size_t count = node->inputs.size();
  while (count > 0 && !node->inputs[count - 1]) --count;
  graph.resize_inputs(node, count);
}

// The types of a body's inputs, from what the node gives.
void type_inputs(const Node& node) {
  const Captured captured = captured_inputs(node);
  for (const auto& body : node.bodies) {
    const auto& inputs = body->inputs();
    if (is_loop(node)) {
      inputs[0]->type = TensorType{kI64, {}};
      inputs[1]->type = TensorType{kBool, {}};
    }
    for (size_t i = is_loop(node) ? 2 : captured.first; i < node.inputs.size(); ++i) {
      Value* input = inputs[i - captured.node_only];
      input->type = node.inputs[i]->type;
      if (i >= captured.first) input->content = node.inputs[i]->content;
    }
  }
}

// How often body i runs at most, as far as sizes tell: 1 where they do not.
Dim runs_of_body(const Node& node, size_t i) {
  const Value* value = is_loop(node) ? LoopParts(node).limit() : node.inputs[0];
  const auto content = value ? ops::content_of(*value) : std::nullopt;
  if (!content || content->size() != 1) return 1;
  if (is_loop(node)) return max(content->front(), 0);
  return i == 0 ? content->front() : 1 - content->front();
}

Result<> infer_node(Graph& graph, Node* node, const PassContext& context);

Result<> infer_nodes(Graph& graph, const std::vector<Node*>& nodes, const PassContext& context) {
  for (Node* node : nodes)
    if (!node->erased) FETTLE_TRY_VOID(infer_node(graph, node, context));
  return {};
}

// An If whose condition is known becomes the body that it takes.
Result<bool> take_branch(Graph& graph, Node* node, const PassContext& context) {
  const Value* condition = node->inputs[0];
  if (!condition->is_constant() || condition->constant->n_elems() != 1) return false;
  const Graph& taken = *node->bodies[condition->constant->int_at(0) != 0 ? 0 : 1];
  const std::vector<Value*> arguments(node->inputs.begin() + kFirstArgument, node->inputs.end());
  if (taken.inputs().size() != arguments.size() || taken.outputs().size() < node->outputs.size())
    return fail(ErrorCode::E605, "the taken branch does not fit its If", node->name);
  std::vector<Node*> added;
  const std::vector<Value*> results = inline_body(graph, taken, arguments, node->provenance, &added);
  for (size_t i = 0; i < node->outputs.size(); ++i) graph.replace_uses(node->outputs[i], results[i]);
  graph.erase(node);
  FETTLE_TRY_VOID(infer_nodes(graph, added, context));
  return true;
}

Result<> infer_graph(Graph& graph, const PassContext& context) {
  return infer_nodes(graph, std::vector<Node*>(graph.nodes()), context);
}

Result<> infer_node(Graph& graph, Node* node, const PassContext& context) {
  constexpr int64_t kSmallBytes = 4096;
  if (node->op->lower) {
    FETTLE_TRY(const std::vector<Node*> added, node->op->lower(graph, node));
    return infer_nodes(graph, added, context);
  }
  if (!node->bodies.empty()) {
    if (is_branch(*node)) {
      FETTLE_TRY(const bool taken, take_branch(graph, node, context));
      if (taken) return {};
    }
    if (is_scan(*node)) {
      type_scan_body(*node);
      FETTLE_TRY_VOID(infer_graph(*node->bodies[0], context));
      node->bodies[0]->sort();
      FETTLE_TRY(const std::vector<Node*> added, lower_scan(graph, node));
      return infer_nodes(graph, added, context);
    }
    settle_captured(graph, node);
    type_inputs(*node);
    for (size_t i = 0; i < node->bodies.size(); ++i) {
      const ops::BodyCheckScope checks(runs_of_body(*node, i));
      FETTLE_TRY_VOID(infer_graph(*node->bodies[i], context));
      node->bodies[i]->sort();
    }
    settle_captured(graph, node);
  }
  FETTLE_TRY(auto types, node->op->infer(*node));
  if (types.size() < node->outputs.size())
    return fail(ErrorCode::E606, fmt::format("{} has {} outputs", node->op->name, node->outputs.size()), node->name);
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    if (const auto shape = static_shape(types[i].shape)) {
      if (auto bytes = checked_bytes(types[i].dtype, *shape); !bytes) {
        bytes.error().where = node->name;
        return fail(std::move(bytes.error()));
      }
    }
    node->outputs[i]->type = std::move(types[i]);
    for (const Dim& dim : node->outputs[i]->shape()) ops::note_not_negative(*node, dim, "an extent");
  }
  if (auto content = known_content(*node)) {
    Value* output = node->outputs[0];
    if (const auto numbers = static_shape(*content)) {
      FETTLE_TRY(ConstantTensor data, to_constant(*output, *numbers));
      hand_provenance_to_users(node);
      graph.replace_uses(output, graph.add_constant(output->name, std::move(data)));
      graph.erase(node);
      return {};
    }
    output->content = std::move(content);
  }
  if (can_fold(*node, 0) || (!node->inputs.empty() && can_fold(*node, kSmallBytes))) {
    int64_t bytes = 0;
    for (const Value* output : node->outputs) bytes += checked_bytes(output->dtype(), output->extents()).value();
    if (bytes <= kSmallBytes) {
      FETTLE_TRY(const bool folded, fold_node(graph, node, context));
      if (folded) return {};
    }
  }
  settle_params(graph, node);
  return {};
}

}  // namespace

Result<> infer_shapes(Graph& graph, const PassContext& context) {
  const ops::SizeCheckScope checks(graph);
  return infer_graph(graph, context);
}

}  // namespace fettle::passes
