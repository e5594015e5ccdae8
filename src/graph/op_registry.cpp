#include "graph/op_registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <unordered_map>

#include "graph/size_vars.h"
#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

/// An operator that keeps what its definition refers to.
struct OwnOp : OpDef {
  std::string own_name;
  OpFunctions functions;
};
const OwnOp& own(const Node& node) { return static_cast<const OwnOp&>(*node.op); }

Result<std::vector<TensorType>> infer_own(const Node& node) {
  FETTLE_TRY(auto types, own(node).functions.infer(node));
  const bool complete = node.op->n_outputs < 0 ? types.size() >= node.outputs.size()
                                               : static_cast<int>(types.size()) == node.op->n_outputs;
  if (!complete)
    return fail(ErrorCode::E605, fmt::format("{}: its rule gives {} types", node.op->name, types.size()), node.name);
  return types;
}

Result<std::vector<te::Tensor>> compute_own(const Node& node, std::span<const te::Tensor> inputs) {
  FETTLE_TRY(auto outputs, own(node).functions.compute(node, inputs));
  const auto refuse = [&](const std::string& why) {
    return fail(ErrorCode::E605, fmt::format("{}: {}", node.op->name, why), node.name);
  };
  if (outputs.size() < node.outputs.size())
    return refuse(fmt::format("its compute function makes {} tensors", outputs.size()));
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    const TensorType& type = *node.outputs[i]->type;
    const te::Tensor& made = outputs[i];
    bool same = made && made.dtype() == type.dtype && made.shape().size() == type.shape.size();
    for (size_t d = 0; same && d < type.shape.size(); ++d)
      same = structural_equal(made.shape()[d], size_expr(type.shape[d]));
    if (!same)
      return refuse(fmt::format("what it computes is not of the type {} that its rule gives", type.to_string()));
    if (node.op->is_pointwise && !is_pointwise_in(made, inputs)) return refuse("it calls itself pointwise, but is not");
  }
  return outputs;
}

/// All that were registered, for good: nodes point to them.
class Registry {
 public:
  Result<const OpDef*> add(std::unique_ptr<OwnOp> op) {
    const std::unique_lock lock(mutex_);
    const auto [at, is_new] = ops_.try_emplace(op->own_name, nullptr);
    if (!is_new) return fail(ErrorCode::E709, fmt::format("there is an operator {} already", op->own_name));
    at->second = std::move(op);
    return at->second.get();
  }
  bool has_any() const {
    const std::shared_lock lock(mutex_);
    return !ops_.empty();
  }
  const OpDef* find(std::string_view name) const {
    const std::shared_lock lock(mutex_);
    const auto at = ops_.find(std::string(name));
    return at == ops_.end() ? nullptr : at->second.get();
  }

 private:
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::string, std::unique_ptr<OwnOp>> ops_;
};
Registry& registry() {
  static Registry& ops = *new Registry;  // never destroyed: what it keeps may need what is gone at the end of a program
  return ops;
}

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

std::string problem_of(const OpDef& op, const OpFunctions& functions) {
  const std::string_view type = short_name(op);
  if (type.empty() || (type[0] >= '0' && type[0] <= '9') || op.name[0] == '.' ||
      !std::ranges::all_of(op.name, [](char c) { return is_word(c) || c == '.'; }))
    return "a name is that of a domain, a dot, and letters and digits, the first a letter";
  if (!functions.infer) return "it has no rule of types";
  if (!functions.compute) return "it has no compute function";
  if (op.min_inputs < 0 || (op.max_inputs >= 0 && op.max_inputs < op.min_inputs)) return "it has no number of inputs";
  if (op.n_outputs == 0 || op.n_outputs < -1) return "it has no outputs";
  const bool maps = op.fusion == FusionKind::kElementwise || op.fusion == FusionKind::kBroadcast;
  if (op.is_pointwise && (!maps || op.n_outputs != 1))
    return "a pointwise operator has one output, and its fusion is elementwise or broadcast";
  if (op.is_commutative && op.max_inputs >= 0 && op.max_inputs < 2) return "a commutative operator has two inputs";
  const bool needs_input = op.fusion == FusionKind::kReduction || op.is_reshape || op.view || op.is_copy ||
                           op.maps_pixels || op.image != ImageWork::kNone;
  const bool is_weighted =
      op.weights || op.image == ImageWork::kConvolution || op.image == ImageWork::kTransposedConvolution;
  if (op.min_inputs < (is_weighted ? 2 : needs_input ? 1 : 0)) return "its traits need more inputs than it may have";
  for (const ParamInput& param : op.params)
    if (param.index < 0 || (op.max_inputs >= 0 && param.index >= op.max_inputs))
      return fmt::format("it has no input {} to be a parameter", param.index);
  return {};
}

}  // namespace

Result<const OpDef*> register_op(const OpDef& op, OpFunctions functions) {
  if (!functions.infer && op.infer) functions.infer = op.infer;
  if (!functions.compute && op.compute) functions.compute = op.compute;
  if (const std::string problem = problem_of(op, functions); !problem.empty())
    return fail(ErrorCode::E709, fmt::format("the operator {}cannot be registered: {}",
                                             op.name.empty() ? "" : std::string(op.name) + " ", problem));
  if (find_op(op.name)) return fail(ErrorCode::E709, fmt::format("there is an operator {} already", op.name));
  auto made = std::make_unique<OwnOp>();
  static_cast<OpDef&>(*made) = op;
  made->own_name = op.name;
  made->name = made->own_name;
  made->functions = std::move(functions);
  made->infer = infer_own;
  made->compute = compute_own;
  return registry().add(std::move(made));
}

bool has_registered_ops() { return registry().has_any(); }

const OpDef* find_registered_op(std::string_view name) { return registry().find(name); }

std::string_view short_name(const OpDef& op) { return op.name.substr(op.name.rfind('.') + 1); }

bool is_pointwise_in(const te::Tensor& tensor, std::span<const te::Tensor> inputs) {
  const auto is_input = [&](const BufferNode* buffer) {
    return std::ranges::any_of(inputs, [&](const te::Tensor& input) { return input && input.get() == buffer; });
  };
  if (is_input(tensor.get())) return true;
  const te::OpNode* op = tensor.get()->op.get();
  if (!op || op->kind != te::OpNode::Kind::kCompute || op->body[0].reduction) return false;
  bool in_place = true;
  for (const Expr& value : op->body[0].values)
    walk(value, [&](const Expr& e) {
      const auto* read = e.as<LoadNode>();
      if (!read) return in_place;
      const auto* from = dynamic_cast<const te::TensorNode*>(read->buffer.get());
      const size_t rank = read->indices.size(), missing = op->axes.size() - std::min(rank, op->axes.size());
      in_place = in_place && from && rank <= op->axes.size();
      for (size_t d = 0; in_place && d < rank; ++d)
        in_place = is_one(from->shape[d])
                       ? is_zero(read->indices[d]) || read->indices[d].get() == op->axes[missing + d].get()
                       : read->indices[d].get() == op->axes[missing + d].get();
      if (in_place && !is_input(from)) in_place = is_pointwise_in(te::Tensor(Ref<const te::TensorNode>(from)), inputs);
      return in_place;
    });
  return in_place;
}

}  // namespace fettle
