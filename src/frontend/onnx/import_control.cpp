// Nodes with bodies: If, Loop, Scan, and operators that take graphs.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "frontend/onnx/importer.h"
#include "graph/op.h"
#include "graph/ops/sequence.h"
#include "graph/passes/node_builder.h"

namespace fettle::onnx_reader {

Result<> Importer::read_body(const NodeProto& node, std::string_view name, Scope& scope,
                             const std::vector<StructureKind>& inputs) {
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
  scope.repeats = node.op_type() == "Loop" || node.op_type() == "Scan" || node.op_type() == "SequenceMap";
  scope.depth = scope_->depth + 1;
  FETTLE_TRY_VOID(check_limit(limits_, &Limits::nesting, scope.depth));
  if (proto.input_size() != static_cast<int>(inputs.size()))
    return fail(ErrorCode::E605,
                fmt::format("{} takes {} inputs instead of {}", name, proto.input_size(), inputs.size()));
  scope_ = &scope;
  auto read = [&]() -> Result<> {
    // Their types are those of what the node gives.
    for (size_t i = 0; i < inputs.size(); ++i) {
      const std::string& input = proto.input(static_cast<int>(i)).name();
      Structure given{inputs[i], {}};
      for (const std::string& tensor : tensor_names(input, inputs[i]))
        given.tensors.push_back(scope_->graph.add_input(tensor));
      FETTLE_TRY_VOID(define(input, std::move(given), "input"));
    }
    FETTLE_TRY_VOID(add_initializers(proto));
    FETTLE_TRY_VOID(add_nodes(proto.node()));
    FETTLE_TRY_VOID(add_outputs(proto));
    declare_types(proto);
    return {};
  }();
  scope_ = scope.parent;
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
  return add_control(scope_->graph, op, proto, std::move(inputs), std::move(attrs), bodies, std::move(outputs),
                     [](Value* outside) { return outside; });
}

Node* Importer::add_control(Graph& graph, const OpDef* op, const NodeProto& proto, std::vector<Value*> inputs,
                            Attrs attrs, std::vector<Scope>& bodies, std::vector<std::string> outputs,
                            const Capture& capture) {
  std::vector<Value*> captured;
  for (const Scope& body : bodies)
    for (const auto& [outside, inside] : body.captured)
      if (std::find(captured.begin(), captured.end(), outside) == captured.end()) captured.push_back(outside);
  for (Value* outside : captured) inputs.push_back(capture(outside));
  Node* made = graph.add_node(op, label_of(proto), std::move(inputs), std::move(attrs), std::move(outputs));
  made->provenance = {{op_label(proto), label_of(proto)}};
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

  void add(const std::string& output, const StructureKind& kind) {
    for (std::string& name : tensor_names(output, kind)) names.push_back(std::move(name));
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
    given.add(output_name(node, static_cast<int>(i)), kind);
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
    given.add(output_name(node, static_cast<int>(i) - 1), kind);
  }
  Attrs attrs = given.attrs();
  attrs.set("carried", static_cast<int64_t>(tensors.size()) - 2);
  Node* made = add_control(find_op("Loop"), node, std::move(tensors), std::move(attrs), bodies, given.names);
  return define_outputs(node, made, given.kinds);
}

Result<> Importer::add_scan(const NodeProto& node) {
  constexpr int kWithoutBatches = 9;
  if (opset_ < kWithoutBatches) return add_batched_scan(node);
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  std::vector<Scope> bodies(1);
  FETTLE_TRY(Attrs attrs, read_scan(node, inputs, bodies[0]));
  std::vector<std::string> outputs = output_names(node);
  outputs.resize(bodies[0].results.size());
  return finish(node, add_control(find_op("Scan"), node, std::move(inputs), std::move(attrs), bodies, outputs));
}

Result<Attrs> Importer::read_scan(const NodeProto& node, const std::vector<Value*>& inputs, Scope& body) {
  if (std::ranges::count(inputs, nullptr) > 0) return fail(ErrorCode::E606, "Scan lacks an input");
  FETTLE_TRY_VOID(read_body(node, "body", body, std::vector<StructureKind>(inputs.size())));
  for (size_t i = 0; i < body.results.size(); ++i) FETTLE_TRY_VOID(return_from(body, i, {}));
  constexpr std::string_view graphs[] = {"body"};
  FETTLE_TRY(Attrs attrs, read_attributes(node, graphs));
  const int64_t n_scanned = attrs.get_int("num_scan_inputs", 0), n_inputs = static_cast<int64_t>(inputs.size());
  if (n_scanned < 1 || n_scanned > n_inputs) return fail(ErrorCode::E606, "num_scan_inputs does not fit");
  if (node.output_size() > static_cast<int>(body.results.size()))
    return fail(ErrorCode::E605, "Scan has too many outputs");
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
  const size_t n_outputs = bodies[0].results.size();
  std::vector<std::string> outputs = output_names(node);
  outputs.resize(n_outputs);
  passes::NodeBuilder nodes(scope_->graph, label_of(node) + ".", {{op_label(node), label_of(node)}});
  passes::LoopBuilder batches(nodes, nodes.extent(inputs.back(), 0));
  std::vector<Value*> given;
  for (Value* input : inputs)
    given.push_back(batches.body().pick("batch", batches.capture(input->name, input), batches.iteration()));
  Node* scan = add_control(batches.body().graph(), find_op("Scan"), node, std::move(given), std::move(attrs), bodies,
                           std::vector<std::string>(n_outputs),
                           [&](Value* outside) { return batches.capture(outside->name, outside); });
  batches.body().remember(scan);
  std::vector<passes::LoopBuilder::Result> rows;
  for (Value* output : scan->outputs) rows.push_back({output->name, output});
  return finish(node, batches.finish(label_of(node), {}, rows, std::move(outputs)));
}

// The bodies are those of the graphs that it has, called as their attributes.
Result<> Importer::add_with_bodies(const NodeProto& node) {
  const OpDef* op = find_op(op_label(node));
  FETTLE_TRY(std::vector<Value*> inputs, find_inputs(node));
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  if (std::ranges::count(inputs, nullptr) > 0 || std::ssize(inputs) < op->min_inputs)
    return fail(ErrorCode::E606, fmt::format("{} has {} inputs, all of which it needs", op->name, inputs.size()));
  FETTLE_TRY(Attrs attrs, read_attributes(node, op->body_names));
  std::vector<Scope> bodies;
  for (const std::string_view name : op->body_names) {
    const auto found = std::ranges::find(node.attribute(), name, &AttributeProto::name);
    if (found == node.attribute().end()) continue;
    Scope& body = bodies.emplace_back();
    const auto n_inputs = static_cast<size_t>(found->g().input_size());
    FETTLE_TRY_VOID(read_body(node, name, body, std::vector<StructureKind>(n_inputs)));
    for (size_t i = 0; i < body.results.size(); ++i) FETTLE_TRY_VOID(return_from(body, i, {}));
  }
  return finish(node, add_control(op, node, std::move(inputs), std::move(attrs), bodies, output_names(node)));
}

}  // namespace fettle::onnx_reader
