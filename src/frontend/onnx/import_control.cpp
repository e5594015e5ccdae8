// If, Loop and Scan: nodes with bodies.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/onnx/importer.h"
#include "graph/ops/sequence.h"

namespace fettle::onnx_reader {

Result<> Importer::read_body(const NodeProto& node, std::string_view name, Scope& scope,
                             const std::vector<StructureKind>& inputs) {
  const auto& attributes = node.attribute();
  const auto found = std::find_if(attributes.begin(), attributes.end(),
                                  [&](const AttributeProto& a) { return a.name() == name && a.has_g(); });
  if (found == attributes.end()) return fail(ErrorCode::E606, fmt::format("{} without {}", node.op_type(), name));
  const GraphProto& proto = found->g();
  scope.graph = Graph(std::string(name));
  scope.around = scope_;
  scope.depth = scope_->depth + 1;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, scope.depth));
  if (proto.input_size() != static_cast<int>(inputs.size()))
    return fail(ErrorCode::E605,
                fmt::format("{} takes {} inputs instead of {}", name, proto.input_size(), inputs.size()));
  scope_ = &scope;
  auto read = [&]() -> Result<> {
    FETTLE_TRY_VOID(check_operators(proto));
    // Their types are those of what the node gives.
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& input = proto.input(static_cast<int>(i)).name();
      Structure given{inputs[i], {}};
      for (const std::string& tensor : tensor_names(input, inputs[i]))
        given.tensors.push_back(scope_->graph.add_input(tensor));
      FETTLE_TRY_VOID(define(input, std::move(given), "input"));
    }
    FETTLE_TRY_VOID(add_initializers(proto));
    FETTLE_TRY_VOID(add_nodes(proto));
    FETTLE_TRY_VOID(add_outputs(proto));
    declare_types(proto);
    return {};
  }();
  scope_ = scope.around;
  return read;
}

Result<> Importer::return_from(Scope& scope, size_t i, const StructureKind& kind) {
  const auto& [name, result] = scope.results[i];
  Scope* const around = std::exchange(scope_, &scope);
  auto returned = as_kind(result, kind, name);
  if (returned) returned = add_result(name, *returned).map([&] { return *returned; });
  scope_ = around;
  return returned.map([](const Structure&) {});
}

Node* Importer::add_control(const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs, Attrs attrs,
                            std::vector<Scope>& bodies, std::vector<std::string> outputs) {
  std::vector<Value*> captured;
  for (const Scope& body : bodies)
    for (const auto& [outside, inside] : body.captured)
      if (std::find(captured.begin(), captured.end(), outside) == captured.end()) captured.push_back(outside);
  inputs.insert(inputs.end(), captured.begin(), captured.end());
  Node* made = scope_->graph.add_node(op, node_label(proto), std::move(inputs), std::move(attrs), std::move(outputs));
  made->provenance = {{op_label(proto), node_label(proto)}};
  for (Scope& body : bodies) {
    std::vector<Value*> order;
    for (Value* outside : captured) {
      const auto it = std::ranges::find(body.captured, outside, &Scope::Captured::outside);
      order.push_back(it != body.captured.end() ? it->inside : body.graph.add_input(outside->name));
    }
    body.graph.order_last_inputs(order);
    body.graph.sort();
    made->bodies.push_back(std::make_shared<Graph>(std::move(body.graph)));
  }
  return made;
}

namespace {

/// The names of what a node gives, and what its parts are to passes.
struct Given {
  std::vector<StructureKind> kinds;
  std::vector<std::string> names;
  std::vector<int64_t> parts;

  void add(const NodeProto& node, const StructureKind& kind) {
    const int i = static_cast<int>(kinds.size());
    for (std::string& name : tensor_names(i < node.output_size() ? node.output(i) : "", kind))
      names.push_back(std::move(name));
    const std::vector<int64_t> of = kind.parts();
    parts.insert(parts.end(), of.begin(), of.end());
    kinds.push_back(kind);
  }
  Attrs attrs() const {
    return std::ranges::all_of(kinds, &StructureKind::is_tensor) ? Attrs{} : Attrs{{kPartsKey, parts}};
  }
};

}  // namespace

Result<> Importer::add_branch(const NodeProto& node) {
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (inputs.size() != 1 || !inputs[0]) return fail(ErrorCode::E606, "If has one input");
  std::vector<Scope> bodies(2);
  FETTLE_TRY_VOID(read_body(node, "then_branch", bodies[0], {}));
  FETTLE_TRY_VOID(read_body(node, "else_branch", bodies[1], {}));
  for (const Scope& body : bodies)
    if (static_cast<int>(body.results.size()) != node.output_size())
      return fail(ErrorCode::E605, fmt::format("If has {} outputs, {} of {}", node.output_size(), body.results.size(),
                                               body.graph.name()));
  Given given;
  for (size_t i = 0; i < bodies[0].results.size(); ++i) {
    StructureKind kind = bodies[0].results[i].second.kind;
    kind.is_optional = kind.is_optional || bodies[1].results[i].second.kind.is_optional;
    for (Scope& body : bodies) FETTLE_TRY_VOID(return_from(body, i, kind));
    given.add(node, kind);
  }
  Node* made = add_control(find_op("If"), node, std::move(inputs), given.attrs(), bodies, given.names);
  return define_outputs(node, made, given.kinds);
}

Result<> Importer::add_loop(const NodeProto& node) {
  FETTLE_TRY(std::vector<Structure> inputs, find_structures(node));
  if (inputs.size() < 2) inputs.resize(2, Structure{{}, {nullptr}});
  const size_t n_carried = inputs.size() - 2;
  std::vector<StructureKind> kinds;
  std::vector<Value*> tensors;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i >= 2 && !inputs[i].tensors[0]) return fail(ErrorCode::E606, "Loop lacks a value that it carries");
    if (i < 2 && !inputs[i].kind.is_tensor())
      return fail(ErrorCode::E605, fmt::format("Loop's input {} is {}", i, inputs[i].kind.to_string()));
    kinds.push_back(inputs[i].kind);
    append_tensors(tensors, inputs[i]);
  }
  std::vector<Scope> bodies(1);
  FETTLE_TRY_VOID(read_body(node, "body", bodies[0], kinds));
  const auto& results = bodies[0].results;
  if (results.size() < n_carried + 1)
    return fail(ErrorCode::E605,
                fmt::format("Loop carries {} values, and its body returns {}", n_carried, results.size()));
  if (node.output_size() > static_cast<int>(results.size()) - 1)
    return fail(ErrorCode::E605, "Loop has too many outputs");
  FETTLE_TRY_VOID(return_from(bodies[0], 0, {}));
  Given given;
  for (size_t i = 1; i < results.size(); ++i) {
    const StructureKind kind = i <= n_carried ? kinds[1 + i] : StructureKind{};
    FETTLE_TRY_VOID(return_from(bodies[0], i, kind));
    given.add(node, kind);
  }
  Attrs attrs = given.attrs();
  attrs.set("carried", static_cast<int64_t>(tensors.size()) - 2);
  Node* made = add_control(find_op("Loop"), node, std::move(tensors), std::move(attrs), bodies, given.names);
  return define_outputs(node, made, given.kinds);
}

Result<> Importer::add_scan(const NodeProto& node) {
  if (opset_ < 9) return fail(ErrorCode::E603, "Scan of opset 8; opset 9 and later are read");
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  if (std::find(inputs.begin(), inputs.end(), nullptr) != inputs.end())
    return fail(ErrorCode::E606, "Scan lacks an input");
  std::vector<Scope> bodies(1);
  FETTLE_TRY_VOID(read_body(node, "body", bodies[0], std::vector<StructureKind>(inputs.size())));
  Given given;
  for (size_t i = 0; i < bodies[0].results.size(); ++i) {
    FETTLE_TRY_VOID(return_from(bodies[0], i, {}));
    given.add(node, {});
  }
  Attrs attrs;
  for (const AttributeProto& a : node.attribute())
    if (a.name() != "body") {
      FETTLE_TRY(AttrValue value, read_attribute(a));
      attrs.set(a.name(), std::move(value));
    }
  const int64_t n_scanned = attrs.get_int("num_scan_inputs", 0), n_inputs = static_cast<int64_t>(inputs.size());
  if (n_scanned < 1 || n_scanned > n_inputs) return fail(ErrorCode::E606, "num_scan_inputs does not fit");
  attrs.set("carried", n_inputs - n_scanned);
  if (node.output_size() > static_cast<int>(given.kinds.size()))
    return fail(ErrorCode::E605, "Scan has too many outputs");
  Node* made = add_control(find_op("Scan"), node, std::move(inputs), std::move(attrs), bodies, given.names);
  return define_outputs(node, made, given.kinds);
}

}  // namespace fettle::onnx_reader
