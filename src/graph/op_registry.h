#pragma once
// Operators of one's own, next to those of graph/ops/.
//
//   const OpDef swish{.name = "com.example.Swish",  // its domain, then the type of its nodes; ONNX's domain has none
//                     .fusion = FusionKind::kBroadcast,
//                     .infer = swish_type,
//                     .compute = swish,
//                     .is_pointwise = true};
//   FETTLE_TRY_VOID(register_op(swish));            // at start, before a model that has such nodes is read
//
// From then on it is an operator like any other: models that have it load, its types are inferred, passes and planner
// go by its traits, and what it computes is fused, scheduled and tuned.

#include <functional>

#include "graph/op.h"

namespace fettle {

/// `infer` and `compute` of an OpDef where a plain function does not do.
struct OpFunctions {
  std::function<Result<std::vector<TensorType>>(const Node& node)> infer;
  std::function<Result<std::vector<te::Tensor>>(const Node& node, std::span<const te::Tensor> inputs)> compute;
};

/// Adds an operator, for good. Names are copied; what `op` points to (parameters, a view, weights) must live as long as
/// the program. `functions` stand for `op`'s own where they are given. Any thread may call this at any time.
/// What `compute` gives is checked each time: its types are those of `infer`, and an operator that is called pointwise
/// is so. Where they are not, the model is refused with E605.
/// E709 the name is empty or exists, or the definition contradicts itself; see the message
Result<const OpDef*> register_op(const OpDef& op, OpFunctions functions = {});

/// The registered operator of this name, or null: find_op asks here for what is not in graph/ops/.
const OpDef* find_registered_op(std::string_view name);

/// Whether any was registered.
bool has_registered_ops();

/// The name without its domain: "Swish".
std::string_view short_name(const OpDef& op);

/// Whether each element of a tensor is computed of the same element of `inputs`, which may broadcast.
bool is_pointwise_in(const te::Tensor& tensor, std::span<const te::Tensor> inputs);

}  // namespace fettle
