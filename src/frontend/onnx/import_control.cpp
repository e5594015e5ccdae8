// If, Loop and Scan: nodes with bodies.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "graph/control.h"

namespace fettle::onnx_reader {

Result<> Importer::read_body(const NodeProto& node, std::string_view name, Scope& scope, int n_inputs) {
  const auto& attributes = node.attribute();
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const AttributeProto& a) { return a.name() == name && a.has_g(); });
  if (found == attributes.end()) return fail(ErrorCode::E606, fmt::format("{} without {}", node.op_type(), name));
  const GraphProto& proto = found->g();
  scope.graph = Graph(std::string(name));
  scope.around = scope_;
  scope.depth = scope_->depth + 1;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, scope.depth));
  if (proto.input_size() != n_inputs)
    return fail(ErrorCode::E605, fmt::format("{} takes {} inputs instead of {}", name, proto.input_size(), n_inputs));
  scope_ = &scope;
  auto read = [&]() -> Result<> {
    FETTLE_TRY_VOID(check_operators(proto));
    // Their types are those of what the node gives.
    for (const auto& input : proto.input())
      FETTLE_TRY_VOID(define(input.name(), scope_->graph.add_input(input.name()), "input"));
    FETTLE_TRY_VOID(add_initializers(proto));
    FETTLE_TRY_VOID(add_nodes(proto));
    FETTLE_TRY_VOID(add_outputs(proto));
    declare_types(proto);
    return {};
  }();
  scope_ = scope.around;
  if (read) scope.graph.sort();
  return read;
}

Node* Importer::add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                            std::vector<Scope>& bodies, std::vector<std::string> outputs) {
  std::vector<std::pair<std::string, Value*>> captured;
  for (const Scope& body : bodies)
    for (const auto& value : body.captured)
      if (std::find(captured.begin(), captured.end(), value) == captured.end()) captured.push_back(value);
  for (const auto& [name, value] : captured) inputs.push_back(value);
  Node* made = scope_->graph.add_node(op, node_label(proto), std::move(inputs), std::move(attrs), std::move(outputs));
  for (Scope& body : bodies) {
    std::vector<Value*> order;
    for (const auto& [name, value] : captured) {
      const auto it = body.values.find(name);
      const bool reads =
          std::find(body.captured.begin(), body.captured.end(), std::pair(name, value)) != body.captured.end();
      order.push_back(reads ? it->second : body.graph.add_input(name));
    }
    body.graph.order_last_inputs(order);
    made->bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  }
  return made;
}

Result<> Importer::add_branch(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (inputs.size() != 1 || !inputs[0]) return fail(ErrorCode::E606, "If has one input");
  std::vector<Scope> bodies(2);
  FETTLE_TRY_VOID(read_body(node, "then_branch", bodies[0], 0));
  FETTLE_TRY_VOID(read_body(node, "else_branch", bodies[1], 0));
  std::vector<std::string> outputs(node.output().begin(), node.output().end());
  for (const Scope& body : bodies)
    if (body.graph.outputs().size() != outputs.size())
      return fail(ErrorCode::E605, fmt::format("If has {} outputs, {} of {}", outputs.size(),
                                               body.graph.outputs().size(), body.graph.name()));
  return finish(node, add_control(find_op("If"), node, std::move(inputs), {}, bodies, std::move(outputs)));
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
  std::vector<std::string> outputs(node.output().begin(), node.output().end());
  if (outputs.size() > bodies[0].graph.outputs().size() - 1) return fail(ErrorCode::E605, "Loop has too many outputs");
  outputs.resize(bodies[0].graph.outputs().size() - 1);
  return finish(node,
                add_control(find_op("Loop"), node, std::move(inputs), std::move(attrs), bodies, std::move(outputs)));
}

Result<> Importer::add_scan(const NodeProto& node) {
  if (opset_ < 9) return fail(ErrorCode::E603, "Scan of opset 8; opset 9 and later are read");
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end())
    return fail(ErrorCode::E606, "Scan lacks an input");
  std::vector<Scope> bodies(1);
  FETTLE_TRY_VOID(read_body(node, "body", bodies[0], static_cast<int>(inputs.size())));
  Attrs attrs;
  for (const AttributeProto& a : node.attribute())
    if (a.name() != "body") {
      FETTLE_TRY(AttrValue value, read_attribute(a));
      attrs.set(a.name(), std::move(value));
    }
  const int64_t n_scanned = attrs.get_int("num_scan_inputs", 0), n_inputs = static_cast<int64_t>(inputs.size());
  if (n_scanned < 1 || n_scanned > n_inputs) return fail(ErrorCode::E606, "num_scan_inputs does not fit");
  attrs.set("carried", n_inputs - n_scanned);
  std::vector<std::string> outputs(node.output().begin(), node.output().end());
  if (outputs.size() > bodies[0].graph.outputs().size()) return fail(ErrorCode::E605, "Scan has too many outputs");
  outputs.resize(bodies[0].graph.outputs().size());
  return finish(node,
                add_control(find_op("Scan"), node, std::move(inputs), std::move(attrs), bodies, std::move(outputs)));
}

}  // namespace fettle::onnx_reader
