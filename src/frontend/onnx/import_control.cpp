// If, Loop and Scan: nodes with bodies.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "graph/control.h"
#include "graph/passes/node_builder.h"

namespace fettle::onnx_reader {
namespace {

Value* as_it_is(const Scope::Captured& captured) { return captured.outside; }

}  // namespace

Result<std::vector<std::string>> Importer::all_outputs(const NodeProto& node, size_t count) const {
  std::vector<std::string> outputs = output_names(node);
  if (outputs.size() > count) return fail(ErrorCode::E605, fmt::format("{} has too many outputs", node.op_type()));
  outputs.resize(count);
  return outputs;
}

Result<> Importer::read_body(const NodeProto& node, std::string_view name, Scope& scope, int n_inputs) {
  const auto& attributes = node.attribute();
  const auto found = std::ranges::find(attributes, name, &AttributeProto::name);
  if (found == attributes.end()) return fail(ErrorCode::E606, fmt::format("{} without {}", node.op_type(), name));
  // A function's graph would have to be read with the names of those who call it.
  if (!found->ref_attr_name().empty())
    return fail(ErrorCode::E603, fmt::format("a function whose attribute \"{}\" is a graph", found->ref_attr_name()));
  if (!found->has_g()) return fail(ErrorCode::E606, fmt::format("{} is no graph", name));
  const GraphProto& proto = found->g();
  scope.graph = Graph(std::string(name));
  scope.around = scope.parent = scope_;
  scope.repeats = node.op_type() == "Loop" || node.op_type() == "Scan";
  scope.depth = scope_->depth + 1;
  if (scope.depth > kMaxNesting) return fail(ErrorCode::E608, "bodies are nested too deeply");
  if (proto.input_size() != n_inputs)
    return fail(ErrorCode::E605, fmt::format("{} takes {} inputs instead of {}", name, proto.input_size(), n_inputs));
  scope_ = &scope;
  auto read = [&]() -> Result<> {
    // Their types are those of what the node gives.
    for (const auto& input : proto.input())
      FETTLE_TRY_VOID(define(input.name(), scope_->graph.add_input(input.name()), "input"));
    FETTLE_TRY_VOID(add_initializers(proto));
    FETTLE_TRY_VOID(add_nodes(proto.node()));
    return add_outputs(proto);
  }();
  scope_ = scope.parent;
  if (read) scope.graph.sort();
  return read;
}

Node* Importer::add_control(Graph& graph, const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs,
                            Attrs attrs, std::vector<Scope>& bodies, std::vector<std::string> outputs,
                            const Capture& capture) {
  std::vector<Scope::Captured> captured;  // once each, whichever bodies read it
  for (const Scope& body : bodies)
    for (const Scope::Captured& c : body.captured)
      if (std::ranges::find(captured, c.outside, &Scope::Captured::outside) == captured.end()) captured.push_back(c);
  for (const Scope::Captured& c : captured) inputs.push_back(capture(c));
  Node* made = graph.add_node(op, label_of(proto), std::move(inputs), std::move(attrs), std::move(outputs));
  for (Scope& body : bodies) {
    std::vector<Value*> order;
    for (const Scope::Captured& c : captured) {
      const auto own = std::ranges::find(body.captured, c.outside, &Scope::Captured::outside);
      order.push_back(own != body.captured.end() ? own->inside : body.graph.add_input(c.name));
    }
    body.graph.order_last_inputs(order);
    made->bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  }
  return made;
}

Node* Importer::add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                            std::vector<Scope>& bodies) {
  return add_control(scope_->graph, op, proto, std::move(inputs), std::move(attrs), bodies, output_names(proto),
                     as_it_is);
}

Result<> Importer::add_branch(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (inputs.size() != 1 || !inputs[0]) return fail(ErrorCode::E606, "If has one input");
  std::vector<Scope> bodies(2);
  FETTLE_TRY_VOID(read_body(node, "then_branch", bodies[0], 0));
  FETTLE_TRY_VOID(read_body(node, "else_branch", bodies[1], 0));
  for (const Scope& body : bodies)
    if (static_cast<int>(body.graph.outputs().size()) != node.output_size())
      return fail(ErrorCode::E605, fmt::format("If has {} outputs, {} of {}", node.output_size(),
                                               body.graph.outputs().size(), body.graph.name()));
  return finish(node, add_control(find_op("If"), node, std::move(inputs), {}, bodies));
}

Result<> Importer::add_loop(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (inputs.size() < 2) inputs.resize(2, nullptr);
  const int n_carried = static_cast<int>(inputs.size()) - 2;
  if (std::find(inputs.begin() + 2, inputs.end(), nullptr) != inputs.end())
    return fail(ErrorCode::E606, "Loop lacks a value that it carries");
  std::vector<Scope> bodies(1);
  FETTLE_TRY_VOID(read_body(node, "body", bodies[0], n_carried + 2));
  if (static_cast<int>(bodies[0].graph.outputs().size()) < n_carried + 1)
    return fail(ErrorCode::E605, fmt::format("Loop carries {} values, and its body returns {}", n_carried,
                                             bodies[0].graph.outputs().size()));
  Attrs attrs;
  attrs.set("carried", int64_t{n_carried});
  FETTLE_TRY(std::vector<std::string> outputs, all_outputs(node, bodies[0].graph.outputs().size() - 1));
  return finish(node, add_control(scope_->graph, find_op("Loop"), node, std::move(inputs), std::move(attrs), bodies,
                                  std::move(outputs), as_it_is));
}

Result<> Importer::add_scan(const NodeProto& node) {
  constexpr int kWithoutBatches = 9;
  if (opset_ < kWithoutBatches) return add_batched_scan(node);
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  std::vector<Scope> bodies(1);
  FETTLE_TRY(Attrs attrs, read_scan(node, inputs, bodies[0]));
  FETTLE_TRY(std::vector<std::string> outputs, all_outputs(node, bodies[0].graph.outputs().size()));
  return finish(node, add_control(scope_->graph, find_op("Scan"), node, std::move(inputs), std::move(attrs), bodies,
                                  std::move(outputs), as_it_is));
}

Result<Attrs> Importer::read_scan(const NodeProto& node, const std::vector<Value*>& inputs, Scope& body) {
  if (std::ranges::count(inputs, nullptr) > 0) return fail(ErrorCode::E606, "Scan lacks an input");
  FETTLE_TRY_VOID(read_body(node, "body", body, static_cast<int>(inputs.size())));
  Attrs attrs;
  FETTLE_TRY(const std::vector<NamedAttribute> attributes, attributes_of(node));
  for (const NamedAttribute& a : attributes)
    if (a.name != "body") {
      FETTLE_TRY(AttrValue value, read_attribute(node, a));
      attrs.set(std::string(a.name), std::move(value));
    }
  const int64_t n_scanned = attrs.get_int("num_scan_inputs", 0), n_inputs = static_cast<int64_t>(inputs.size());
  if (n_scanned < 1 || n_scanned > n_inputs) return fail(ErrorCode::E606, "num_scan_inputs does not fit");
  attrs.set("carried", n_inputs - n_scanned);
  return attrs;
}

Result<> Importer::add_batched_scan(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (inputs.empty()) return fail(ErrorCode::E606, "Scan lacks an input");
  if (inputs[0]) return fail(ErrorCode::E603, "Scan of opset 8 with sequence_lens");
  inputs.erase(inputs.begin());
  std::vector<Scope> bodies(1);
  FETTLE_TRY(Attrs attrs, read_scan(node, inputs, bodies[0]));
  if (const AttrValue* directions = attrs.find("directions")) {
    attrs.set("scan_input_directions", *directions);
    attrs.erase("directions");
  }
  const size_t n_outputs = bodies[0].graph.outputs().size();
  FETTLE_TRY(std::vector<std::string> outputs, all_outputs(node, n_outputs));

  passes::NodeBuilder nodes(scope_->graph, label_of(node) + ".", {{op_label(node), label_of(node)}});
  passes::LoopBuilder batches(nodes, nodes.extent(inputs.back(), 0));
  std::vector<Value*> given;
  for (Value* input : inputs)
    given.push_back(batches.body().pick("batch", batches.capture(input->name, input), batches.iteration()));
  Node* scan = add_control(batches.body().graph(), find_op("Scan"), node, std::move(given), std::move(attrs), bodies,
                           std::vector<std::string>(n_outputs), [&](const Scope::Captured& captured) {
                             return batches.capture(captured.name, captured.outside);
                           });
  batches.body().remember(scan);
  std::vector<passes::LoopBuilder::Result> rows;
  for (Value* output : scan->outputs) rows.push_back({output->name, output});
  return finish(node, batches.finish(label_of(node), {}, rows, std::move(outputs)));
}

// The bodies are those of the graphs that it has, called as their attributes.
Result<> Importer::add_flex_attention(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  constexpr size_t kInputs = 3;
  if (inputs.size() != kInputs || std::ranges::count(inputs, nullptr) > 0)
    return fail(ErrorCode::E606, "FlexAttention has three inputs");
  Attrs attrs;
  std::vector<Scope> bodies;
  FETTLE_TRY(const std::vector<NamedAttribute> attributes, attributes_of(node));
  for (const NamedAttribute& a : attributes) {
    if (a.name == "score_mod" || a.name == "prob_mod") {
      FETTLE_TRY_VOID(read_body(node, a.name, bodies.emplace_back(), 1));
    } else {
      FETTLE_TRY(AttrValue value, read_attribute(node, a));
      attrs.set(std::string(a.name), std::move(value));
    }
  }
  return finish(node, add_control(find_op(op_label(node)), node, std::move(inputs), std::move(attrs), bodies));
}

}  // namespace fettle::onnx_reader
