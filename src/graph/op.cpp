#include "graph/op.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "graph/node_program.h"
#include "graph/op_registry.h"
#include "graph/op_util.h"
#include "graph/small_types.h"
#include "runtime/dtype.h"
#include "te/make_func.h"

namespace fettle {

std::string_view to_string(FusionKind kind) {
  constexpr std::string_view names[] = {"elementwise", "broadcast",           "injective",
                                        "reduction",   "complex_out_fusable", "opaque"};
  return names[static_cast<size_t>(kind)];
}

const OpDef* find_op(std::string_view name) {
  static const auto table = [] {
    std::unordered_map<std::string_view, const OpDef*> ops;
    for (const OpFamily* family : op_families())
      for (const OpDef& op : family->ops) FETTLE_CHECK_MSG(ops.emplace(op.name, &op).second, op.name);
    return ops;
  }();
  const auto it = table.find(name);
  return it == table.end() ? find_registered_op(name) : it->second;
}

FusionKind fusion_kind(const Node& node) {
  if (is_host(node)) return FusionKind::kOpaque;
  if (node.op->fusion != FusionKind::kBroadcast) return node.op->fusion;
  const Shape& out = node.outputs[0]->type->shape;
  const bool same = std::all_of(node.inputs.begin(), node.inputs.end(),
                                [&](const Value* input) { return !input || input->type->shape == out; });
  return same ? FusionKind::kElementwise : FusionKind::kBroadcast;
}

bool is_host(const Node& node) { return node.op->host && (!node.op->host->applies || node.op->host->applies(node)); }

std::vector<Dim> host_integers(const Node& node) {
  std::vector<Dim> integers = {0};
  int64_t count = 0;
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const Value* value : *list) {
      if (!value) continue;
      ++count;
      const auto type = find_dtype(value->dtype().to_string());
      FETTLE_CHECK_MSG(type.has_value(), value->name);
      integers.emplace_back(int64_t{*type});
      integers.emplace_back(int64_t{value->rank()});
      for (const Dim& dim : value->shape()) integers.push_back(dim);
    }
  integers[0] = count;
  if (node.op->host->numbers)
    for (const int64_t number : node.op->host->numbers(node)) integers.emplace_back(number);
  return integers;
}

Result<> check_strings(const Node& node) {
  const OpDef& op = *node.op;
  if (op.work == ElementWork::kMoves || !node.bodies.empty() || is_host(node)) return {};
  if (op.takes_strings && op.takes_strings(node)) return {};
  const auto is_string = [](const Value* value) { return value && value->type && value->dtype().is_string(); };
  for (const auto* list : {&node.inputs, &node.outputs})
    if (std::ranges::any_of(*list, is_string))
      return fail(ErrorCode::E605, fmt::format("{} does not take strings", op.name), node.name);
  return {};
}

namespace {

/// A node whose values are of other types, halves singles: what an operator's `compute` is asked of.
class ComputedNode {
 public:
  ComputedNode(const Node& node, DType (*type)(DType)) : node_(node) {
    for (auto* list : {&node_.inputs, &node_.outputs})
      for (Value*& value : *list)
        if (value && type(value->dtype()) != value->dtype()) {
          values_.push_back(*value);
          values_.back().type->dtype = type(value->dtype());
          value = &values_.back();
        }
  }
  const Node& node() const { return node_; }

 private:
  Node node_;
  std::deque<Value> values_;
};

}  // namespace

te::Tensor rounded(const te::Tensor& t, DType stated) {
  const DType dtype = program_dtype(stated);
  if (t.dtype() == dtype) return t;
  if (t.stored_dtype() == dtype) return t.read_as(dtype);
  return te::compute(t.shape(), [&](const std::vector<Var>& i) { return te::Body(cast(dtype, t(i))); }, "rounded");
}

Result<std::vector<te::Tensor>> node_compute(const Node& node, std::span<const te::Tensor> inputs) {
  for (const auto* list : {&node.inputs, &node.outputs})
    for (const Value* value : *list)
      if (value && !value->type)
        return fail(ErrorCode::E604, fmt::format("the shape of \"{}\" is not known", value->name), node.name);
  const auto any = [&](const auto& is) {
    return std::ranges::any_of(node.inputs, is) || std::ranges::any_of(node.outputs, is);
  };
  const auto has_small_type = [](const Value* value) { return value && is_small(value->dtype()); };
  const auto has_string = [](const Value* value) { return value && value->dtype().is_string(); };
  FETTLE_TRY_VOID(check_strings(node));
  const bool sees_codes = (node.op->work == ElementWork::kMoves && any(has_small_type)) || any(has_string);
  if (node.op->work == ElementWork::kComputes && any(has_small_type)) {
    const auto* list = std::ranges::any_of(node.inputs, has_small_type) ? &node.inputs : &node.outputs;
    const DType dtype = (*std::ranges::find_if(*list, has_small_type))->dtype();
    return ops::bad_types(
        node, fmt::format("it does not compute with {}; Cast or DequantizeLinear convert it", dtype.to_string()));
  }
  const auto is_half = [](const Value* value) { return value && computed_dtype(value->dtype()) != value->dtype(); };
  bool widens = node.op->work == ElementWork::kComputes && any(is_half);
  if (node.op->work == ElementWork::kMoves)  // what another node has computed is moved as it is
    for (size_t i = 0; i < inputs.size(); ++i) widens |= is_half(node.input(i)) && inputs[i].dtype() == kF32;
  std::vector<te::Tensor> outputs;
  if (widens) {
    std::vector<te::Tensor> computed;
    for (const te::Tensor& input : inputs)
      computed.push_back(input ? input.read_as(computed_dtype(input.dtype())) : input);
    const ComputedNode wide(node, [](DType dtype) { return computed_dtype(program_dtype(dtype)); });
    FETTLE_TRY(outputs, node.op->compute(wide.node(), computed));
  } else if (sees_codes) {
    const ComputedNode bytes(node, program_dtype);
    FETTLE_TRY(outputs, node.op->compute(bytes.node(), inputs));
  } else {
    FETTLE_TRY(outputs, node.op->compute(node, inputs));
  }
  FETTLE_CHECK(outputs.size() >= node.outputs.size());
  outputs.resize(node.outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const DType stated = program_dtype(node.outputs[i]->type->dtype), made = outputs[i].dtype();
    FETTLE_CHECK_MSG(made == stated || made == computed_dtype(stated), node.name + ": " + std::string(node.op->name));
  }
  return outputs;
}

Result<Func> program_of(const std::string& func_name, const std::vector<te::Tensor>& inputs,
                        const std::vector<te::Tensor>& outputs, const te::FuncOptions& options,
                        const std::string& name) {
  auto func = te::make_func(func_name, inputs, outputs, options);
  if (!func) return fail(ErrorCode::E605, func.error().message, name);
  return func;
}

te::Tensor placeholder_for(const Value& value) {
  std::string name;
  for (const char c : value.name) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
    const bool digit = c >= '0' && c <= '9';
    if (name.empty() && !letter) name = "v_";
    name += letter || digit ? c : '_';
  }
  return te::placeholder(size_exprs(value.type->shape), program_dtype(value.type->dtype), name);
}

Result<Func> node_func(const Node& node) {
  FETTLE_TRY(SizedFunc sized, sized_node_func(node));
  return std::move(sized.func);
}

Result<SizedFunc> sized_node_func(const Node& node) {
  SizeVars vars;
  std::unordered_map<const Value*, te::Tensor> made;
  std::vector<te::Tensor> params, arguments;
  te::FuncOptions options;
  for (const Value* input : node.inputs) {
    if (!input) {
      arguments.emplace_back();
      continue;
    }
    if (!input->type)
      return fail(ErrorCode::E604, fmt::format("the shape of \"{}\" is not known", input->name), node.name);
    auto [it, is_new] = made.try_emplace(input);
    if (is_new) {
      it->second = placeholder_for(*input);
      params.push_back(it->second);
      options.input_kinds.push_back(input->is_constant() ? ParamKind::kConstant : ParamKind::kInput);
    }
    arguments.push_back(it->second);
  }
  FETTLE_TRY(auto outputs, node_compute(node, arguments));
  for (size_t i = 0; i < outputs.size(); ++i) outputs[i] = rounded(outputs[i], node.outputs[i]->dtype());
  options.int_params = vars.params();
  FETTLE_TRY(const Func func, program_of(ops::tensor_name(node), params, outputs, options, node.name));
  return with_size_params(func, vars);
}

}  // namespace fettle
