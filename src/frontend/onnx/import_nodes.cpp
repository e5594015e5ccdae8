// Nodes without bodies, constants and attributes.

#include <fmt/format.h>

#include <algorithm>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/normalize.h"
#include "graph/strings.h"

namespace fettle::onnx_reader {
namespace {

bool is_supported(const NodeProto& node) {
  const std::string op = op_label(node);
  return op == "Constant" || is_structure_op(op) || find_op(newest_name(op)) != nullptr;
}

Result<> report(const std::map<std::string, std::vector<std::string>>& missing) {
  if (missing.empty()) return {};
  constexpr size_t kNamed = 8;
  std::string text;
  for (const auto& [op, nodes] : missing) {
    std::string names;
    for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) names += (i ? ", " : "") + nodes[i];
    if (nodes.size() > kNamed) names += fmt::format(" and {} more", nodes.size() - kNamed);
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", op, names);
  }
  return fail(ErrorCode::E603, text);
}

}  // namespace

std::string node_label(const NodeProto& node) {
  if (!node.name().empty()) return node.name();
  return node.output_size() > 0 ? node.output(0) : node.op_type();
}

std::string op_label(const NodeProto& node) {
  return is_standard_domain(node.domain()) ? node.op_type() : node.domain() + "." + node.op_type();
}

Result<> Importer::check_operators(const GraphProto& graph) {
  std::map<std::string, std::vector<std::string>> missing;
  for (const NodeProto& node : graph.node())
    if (!is_supported(node)) missing[op_label(node)].push_back(node_label(node));
  return report(missing);
}

Result<> Importer::add_nodes(const GraphProto& graph) {
  for (const NodeProto& node : graph.node()) {
    const std::string op = op_label(node);
    auto added = op == "Constant" ? add_constant(node)
                 : op == "If"     ? add_branch(node)
                 : op == "Loop"   ? add_loop(node)
                 : op == "Scan"   ? add_scan(node)
                                  : add_node(node);
    if (!added) {
      if (added.error().where.empty()) added.error().where = node_label(node);
      return added;
    }
  }
  return {};
}

Result<> Importer::add_constant(const NodeProto& node) {
  if (node.attribute_size() != 1 || node.output_size() != 1)
    return fail(ErrorCode::E606, "a Constant has one attribute and one output");
  const AttributeProto& a = node.attribute(0);
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
  if (a.name() == "value")
    data = read_constant(a.t());
  else if (a.name() == "value_float")
    data = scalar(a.f());
  else if (a.name() == "value_int") {
    data = reshaped(int_list(std::vector<int64_t>{a.i()}), {});
  } else if (a.name() == "value_floats")
    data = from_list(kF32, a.floats(), false);
  else if (a.name() == "value_ints")
    data = from_list(kI64, a.ints(), false);
  else if (a.name() == "value_string")
    data = string_scalar(a.s());
  else if (a.name() == "value_strings")
    data = string_tensor(std::vector<std::string>(a.strings().begin(), a.strings().end()), {a.strings_size()});
  else
    return fail(ErrorCode::E603, "Constant with " + a.name());
  if (!data) return fail(std::move(data.error()));
  return define(node.output(0), scope_->graph.add_constant(node.output(0), std::move(*data)), node_label(node));
}

Result<> Importer::finish(const NodeProto& proto, Node* made) {
  for (int i = 0; i < std::min<int>(proto.output_size(), static_cast<int>(made->outputs.size())); ++i)
    if (!proto.output(i).empty())
      FETTLE_TRY_VOID(define(proto.output(i), made->outputs[static_cast<size_t>(i)], made->name));
  return {};
}

Result<std::vector<Value*>> Importer::find_inputs(const NodeProto& node) {
  std::vector<Value*> inputs;
  for (const std::string& name : node.input()) {
    inputs.push_back(name.empty() ? nullptr : find(name));
    if (inputs.back() || name.empty()) continue;
    if (const auto structure = find_structure(name, *scope_))
      return fail(ErrorCode::E605,
                  fmt::format("{} takes tensors, and \"{}\" is {}", op_label(node), name, structure->kind.to_string()));
    return fail(ErrorCode::E605, fmt::format("nothing makes the input \"{}\"", name));
  }
  return inputs;
}

Result<AttrValue> Importer::read_attribute(const AttributeProto& a) {
  switch (a.type()) {
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
      return fail(ErrorCode::E603, fmt::format("attribute \"{}\" of a kind that is not supported", a.name()));
  }
}

Result<Node*> Importer::add_operator(const NodeProto& proto, const OpDef* op, std::vector<Value*> inputs,
                                     std::vector<std::string> outputs) {
  Attrs attrs;
  for (const AttributeProto& a : proto.attribute()) {
    FETTLE_TRY(AttrValue value, read_attribute(a));
    attrs.set(a.name(), std::move(value));
  }
  return add_operator(proto, op, node_label(proto), std::move(inputs), std::move(attrs), std::move(outputs));
}

Result<Node*> Importer::add_operator(const NodeProto& proto, const OpDef* op, const std::string& name,
                                     std::vector<Value*> inputs, Attrs attrs, std::vector<std::string> outputs) {
  while (!inputs.empty() && !inputs.back()) inputs.pop_back();
  const int n_inputs = static_cast<int>(inputs.size());
  bool complete = n_inputs >= op->min_inputs && (op->max_inputs < 0 || n_inputs <= op->max_inputs);
  for (int i = 0; complete && i < op->min_inputs; ++i) complete = inputs[static_cast<size_t>(i)] != nullptr;
  if (!complete) return fail(ErrorCode::E606, fmt::format("{} has {} inputs", op->name, n_inputs));
  if (op->n_outputs >= 0 && static_cast<int>(outputs.size()) > op->n_outputs)
    return fail(ErrorCode::E603, fmt::format("{} with {} outputs", op->name, outputs.size()));
  Node* made = scope_->graph.add_node(op, name, std::move(inputs), std::move(attrs), std::move(outputs));
  made->provenance = {{op_label(proto), node_label(proto)}};
  return made;
}

Result<> Importer::add_node(const NodeProto& proto) {
  FETTLE_TRY(const bool is_added, add_structure_node(proto));
  if (is_added) return {};
  ModelNode node;
  node.op = op_label(proto);
  node.name = node_label(proto);
  FETTLE_TRY(node.inputs, find_inputs(proto));
  node.outputs.assign(proto.output().begin(), proto.output().end());
  for (const AttributeProto& a : proto.attribute()) {
    FETTLE_TRY(AttrValue value, read_attribute(a));
    node.attrs.set(a.name(), std::move(value));
  }
  while (!node.outputs.empty() && node.outputs.back().empty()) node.outputs.pop_back();
  if (node.outputs.empty()) return {};
  FETTLE_TRY_VOID(normalize(node, opset_));
  FETTLE_TRY(Node * made, add_operator(proto, find_op(node.op), node.name, std::move(node.inputs),
                                       std::move(node.attrs), std::move(node.outputs)));
  return finish(proto, made);
}

}  // namespace fettle::onnx_reader
