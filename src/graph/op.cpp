#include "graph/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "graph/op_util.h"
#include "te/create_func.h"

namespace fettle {

std::string_view to_string(FusionKind kind) {
  switch (kind) {
    case FusionKind::kElementwise:
      return "elementwise";
    case FusionKind::kBroadcast:
      return "broadcast";
    case FusionKind::kInjective:
      return "injective";
    case FusionKind::kReduction:
      return "reduction";
    case FusionKind::kComplexOutFusable:
      return "complex_out_fusable";
    case FusionKind::kOpaque:
      return "opaque";
  }
  FETTLE_UNREACHABLE();
}

const OpDef* find_op(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpDef*> ops;
    for (const OpFamily* family : op_families())
      for (const OpDef& op : family->ops) FETTLE_CHECK_MSG(ops.emplace(op.name, &op).second, op.name);
    return ops;
  }();
  const auto it = table.find(name);
  return it == table.end() ? nullptr : it->second;
}

FusionKind fusion_kind(const Node& node) {
  if (node.op->fusion != FusionKind::kBroadcast) return node.op->fusion;
  const Shape& out = node.outputs[0]->type->shape;
  const bool same = std::all_of(node.inputs.begin(), node.inputs.end(),
                                [&](const Value* input) { return !input || input->type->shape == out; });
  return same ? FusionKind::kElementwise : FusionKind::kBroadcast;
}

Result<std::vector<te::Tensor>> node_meaning(const Node& node, std::span<const te::Tensor> inputs) {
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const Value* value : *list)
      if (value && !value->is_static())
        return fail(ErrorCode::E604,
                    fmt::format("the shape of \"{}\" is {}", value->name,
                                value->type ? to_string(value->type->shape) : "not known"),
                    node.name);
  FETTLE_TRY(auto outputs, node.op->meaning(node, inputs));
  FETTLE_CHECK(outputs.size() >= node.outputs.size());
  outputs.resize(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i)
    FETTLE_CHECK_MSG(outputs[i].dtype() == node.outputs[i]->type->dtype, node.name + ": " + std::string(node.op->name));
  return outputs;
}

te::Tensor placeholder_for(const Value& value) {
  std::string name;
  for (const char c : value.name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (name.empty() && !letter) name = "v_";
    name += letter || digit ? c : '_';
  }
  return te::placeholder(ops::shape_exprs(value.type->shape), value.type->dtype, name);
}

Result<Func> node_func(const Node& node) {
  std::unordered_map<const Value*, te::Tensor> made;
  std::vector<te::Tensor> params, arguments;
  te::FuncOptions options;
  for (const Value* input : node.inputs) {
    if (!input) {
      arguments.emplace_back();
      continue;
    }
    if (!input->is_static())
      return fail(ErrorCode::E604, fmt::format("the shape of \"{}\" is not known", input->name), node.name);
    auto [it, is_new] = made.try_emplace(input);
    if (is_new) {
      it->second = placeholder_for(*input);
      params.push_back(it->second);
      options.input_kinds.push_back(input->is_constant() ? ParamKind::kConstant : ParamKind::kInput);
    }
    arguments.push_back(it->second);
  }
  FETTLE_TRY(const auto outputs, node_meaning(node, arguments));
  return te::create_func(ops::tensor_name(node), params, outputs, options);
}

}  // namespace fettle
