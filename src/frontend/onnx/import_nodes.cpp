// Nodes without bodies, constants and attributes.

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/normalize.h"
#include "graph/op.h"
#include "graph/random_calls.h"
#include "graph/strings.h"

namespace fettle::onnx_reader {
std::string node_label(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

std::string op_label(const NodeProto& node) {
  return is_standard_domain(node.domain()) ? node.op_type() : node.domain() + "." + node.op_type();
}

std::string kind_name(int kind) {
  if (!AttributeProto::AttributeType_IsValid(kind)) return std::to_string(kind);
  std::string name = AttributeProto::AttributeType_Name(static_cast<AttributeProto::AttributeType>(kind));
  for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return name;
}

AttributeProto::AttributeType kind_of(const AttributeProto& a) {
  if (a.type() != AttributeProto::UNDEFINED) return a.type();
  if (a.has_f()) return AttributeProto::FLOAT;
  if (a.has_i()) return AttributeProto::INT;
  if (a.has_s()) return AttributeProto::STRING;
  if (a.has_t()) return AttributeProto::TENSOR;
  if (a.has_g()) return AttributeProto::GRAPH;
  if (a.floats_size() > 0) return AttributeProto::FLOATS;
  if (a.strings_size() > 0) return AttributeProto::STRINGS;
  return AttributeProto::INTS;
}

Result<> Importer::add_nodes(const Nodes& nodes) {
  for (const NodeProto& node : nodes) {
    const std::string op = op_label(node);
    const FunctionProto* function = function_of(node);
    const OpDef* known = find_op(op);
    auto added = function                              ? add_call(*function, node)
                 : op == "Constant"                    ? add_constant(node)
                 : op == "If"                          ? add_branch(node)
                 : op == "Loop"                        ? add_loop(node)
                 : op == "Scan"                        ? add_scan(node)
                 : known && !known->body_names.empty() ? add_with_bodies(node)
                                                       : add_node(node);
    if (!added) {
      if (added.error().where.empty()) added.error().where = label_of(node);
      return added;
    }
  }
  return {};
}

Result<std::vector<NamedAttribute>> Importer::attributes_of(const NodeProto& node) const {
  std::vector<NamedAttribute> attributes;
  for (const AttributeProto& a : node.attribute()) {
    const AttributeProto* value = &a;
    if (!a.ref_attr_name().empty()) {
      if (!call_)
        return fail(ErrorCode::E606,
                    fmt::format("attribute \"{}\" is that of a function, and there is none", a.name()));
      const auto given = call_->attributes.find(a.ref_attr_name());
      if (given == call_->attributes.end()) continue;
      value = given->second;
      if (a.type() != AttributeProto::UNDEFINED && a.type() != kind_of(*value))
        return fail(ErrorCode::E606, fmt::format("attribute \"{}\" is {}, and the call gives {}", a.name(),
                                                 kind_name(a.type()), kind_name(kind_of(*value))));
    }
    if (std::ranges::find(attributes, a.name(), &NamedAttribute::name) != attributes.end())
      return fail(ErrorCode::E606, fmt::format("attribute \"{}\" is stated twice", a.name()));
    attributes.push_back({a.name(), value});
  }
  return attributes;
}

Result<> Importer::add_constant(const NodeProto& node) {
  FETTLE_TRY(const std::vector<NamedAttribute> attributes, attributes_of(node));
  if (attributes.size() != 1 || node.output_size() != 1)
    return fail(ErrorCode::E606, "a Constant has one attribute and one output");
  const std::string_view kind = attributes[0].name;
  const AttributeProto& a = *attributes[0].value;
  const auto from_list = [&](DType dtype, const auto& list, bool is_scalar) -> Result<ConstantTensor> {
    std::vector<int64_t> shape;
    if (!is_scalar) shape.push_back(list.size());
    FETTLE_TRY(TensorBuilder out, make_tensor(dtype, shape));
    for (int i = 0; i < list.size(); ++i) {
      if (dtype == kI64)
        out.elems<int64_t>()[static_cast<size_t>(i)] = static_cast<int64_t>(list.Get(i));
      else
        out.elems<float>()[static_cast<size_t>(i)] = static_cast<float>(list.Get(i));
    }
    return std::move(out).finish();
  };
  Result<ConstantTensor> data;
  if (kind == "value")
    data = read_constant(a.t());
  else if (kind == "value_float")
    data = scalar(a.f());
  else if (kind == "value_int") {
    data = reshaped(int_list(std::vector<int64_t>{a.i()}), {});
  } else if (kind == "value_floats")
    data = from_list(kF32, a.floats(), false);
  else if (kind == "value_ints")
    data = from_list(kI64, a.ints(), false);
  else if (kind == "sparse_value")
    data = read_sparse_constant(a.sparse_tensor());
  else if (kind == "value_string")
    data = string_scalar(a.s());
  else if (kind == "value_strings")
    data = string_tensor(std::vector<std::string>(a.strings().begin(), a.strings().end()), {a.strings_size()});
  else
    return fail(ErrorCode::E603, fmt::format("Constant with {}", kind));
  if (!data) return fail(std::move(data.error()));
  return define(node.output(0), scope_->graph.add_constant(path_ + node.output(0), std::move(*data)), label_of(node));
}

Result<> Importer::finish(const NodeProto& proto, Node* made) {
  for (int i = 0; i < std::min<int>(proto.output_size(), static_cast<int>(made->outputs.size())); ++i)
    if (!proto.output(i).empty())
      FETTLE_TRY_VOID(define(proto.output(i), made->outputs[static_cast<size_t>(i)], made->name));
  return {};
}

std::string Importer::output_name(const NodeProto& node, int i) const {
  return i < node.output_size() && !node.output(i).empty() ? path_ + node.output(i) : "";
}

std::vector<std::string> Importer::output_names(const NodeProto& node) const {
  std::vector<std::string> names;
  for (int i = 0; i < node.output_size(); ++i) names.push_back(output_name(node, i));
  return names;
}

Result<std::vector<Value*>> Importer::find_inputs(const NodeProto& node) {
  std::vector<Value*> inputs;
  for (const std::string& name : node.input()) {
    inputs.push_back(name.empty() ? nullptr : find(name));
    if (inputs.back() || name.empty() || is_left_out(name)) continue;
    if (const auto structure = find_structure(name, *scope_))
      return fail(ErrorCode::E605,
                  fmt::format("{} takes tensors, and \"{}\" is {}", op_label(node), name, structure->kind.to_string()));
    return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", name));
  }
  return inputs;
}

Result<AttrValue> Importer::read_attribute(const NodeProto& node, const NamedAttribute& attribute) {
  const AttributeProto& a = *attribute.value;
  switch (kind_of(a)) {
    case AttributeProto::INT:
      return AttrValue(a.i());
    case AttributeProto::FLOAT:
      return AttrValue(static_cast<double>(a.f()));
    case AttributeProto::STRING:
      return AttrValue(a.s());
    case AttributeProto::INTS:
      return AttrValue(std::vector<int64_t>(a.ints().begin(), a.ints().end()));
    case AttributeProto::FLOATS:
      return AttrValue(std::vector<double>(a.floats().begin(), a.floats().end()));
    case AttributeProto::STRINGS:
      return AttrValue(std::vector<std::string>(a.strings().begin(), a.strings().end()));
    case AttributeProto::TENSOR: {
      FETTLE_TRY(ConstantTensor data, read_constant(a.t()));
      return AttrValue(std::move(data));
    }
    default:
      return fail(ErrorCode::E603, fmt::format("attribute \"{}\" is {}, which {} does not take", attribute.name,
                                               kind_name(kind_of(a)), op_label(node)));
  }
}

Result<Attrs> Importer::read_attributes(const NodeProto& node, std::span<const std::string_view> graphs) {
  Attrs attrs;
  FETTLE_TRY(const std::vector<NamedAttribute> attributes, attributes_of(node));
  for (const NamedAttribute& a : attributes) {
    if (std::ranges::find(graphs, a.name) != graphs.end()) continue;
    FETTLE_TRY(AttrValue value, read_attribute(node, a));
    attrs.set(std::string(a.name), std::move(value));
  }
  return attrs;
}

Result<Value*> Importer::calls_in(Scope& scope) {
  if (scope.calls) return scope.calls;
  if (scope.repeats)
    return fail(ErrorCode::E603, "random numbers in a loop, without a seed: each iteration would have the same");
  if (!scope.parent) return scope.calls = add_random_calls(scope.graph);
  FETTLE_TRY(Value * outside, calls_in(*scope.parent));
  return scope.calls = capture(outside->name, outside, scope);
}

Result<Node*> Importer::add_operator(const NodeProto& proto, const OpDef* op, std::vector<Value*> inputs,
                                     std::vector<std::string> outputs) {
  FETTLE_TRY(Attrs attrs, read_attributes(proto));
  return add_operator(proto, op, label_of(proto), std::move(inputs), std::move(attrs), std::move(outputs));
}

Result<Node*> Importer::add_operator(const NodeProto& proto, const OpDef* op, const std::string& name,
                                     std::vector<Value*> inputs, Attrs attrs, std::vector<std::string> outputs) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  const int n_inputs = static_cast<int>(inputs.size());
  bool complete = n_inputs >= op->min_inputs && (op->max_inputs < 0 || n_inputs <= op->max_inputs);
  for (int i = 0; complete && i < op->min_inputs; ++i) complete = inputs[static_cast<size_t>(i)] != nullptr;
  if (!complete) return fail(ErrorCode::E606, fmt::format("{} has {} inputs", op->name, n_inputs));
  // Of any number, each is there.
  if (const auto hole = std::ranges::find(inputs, nullptr); op->max_inputs < 0 && hole != inputs.end())
    return fail(ErrorCode::E606, fmt::format("{} leaves out input {}", op->name, hole - inputs.begin()));
  if (op->n_outputs >= 0 && static_cast<int>(outputs.size()) > op->n_outputs)
    return fail(ErrorCode::E603, fmt::format("{} with {} outputs", op->name, outputs.size()));
  Node* made = scope_->graph.add_node(op, name, std::move(inputs), std::move(attrs), std::move(outputs));
  made->provenance = {{op_label(proto), label_of(proto)}};
  return made;
}

Result<> Importer::add_node(const NodeProto& proto) {
  FETTLE_TRY(const bool is_added, add_structure_node(proto));
  if (is_added) return {};
  ModelNode node;
  node.op = op_label(proto);
  node.name = label_of(proto);
  FETTLE_TRY(node.inputs, find_inputs(proto));
  node.outputs = output_names(proto);
  FETTLE_TRY(node.attrs, read_attributes(proto));
  while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
  if (node.outputs.empty()) return {};
  FETTLE_TRY_VOID(normalize(node, opset_, scope_->graph));
  if (is_random(node) && !node.attrs.has("seed")) {
    FETTLE_TRY(Value * calls, calls_in(*scope_));
    while (!node.inputs.empty() && !node.inputs.back()) node.inputs.pop_back();
    node.inputs.push_back(calls);
  }
  FETTLE_TRY(Node * made, add_operator(proto, find_op(node.op), node.name, std::move(node.inputs),
                                       std::move(node.attrs), std::move(node.outputs)));
  return finish(proto, made);
}

}  // namespace fettle::onnx_reader
