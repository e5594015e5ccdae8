// Losses of classification: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss.

#include "graph/passes/lowering.h"

namespace fettle {
namespace {

using namespace ops;
using passes::composite;
using passes::Lowering;

//   loss[n, d…] = -w[t] * input[n, t, d…],  t = target[n, d…]; nothing where t is ignore_index
// and its sum, or that over the sum of the weights that were used. A class has the weight 1 unless weights are given.
Result<Value*> likelihood_loss(Lowering& g, const Node& node, Value* input, Value* target, Value* weights) {
  const std::string reduction = node.attrs.get_string("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    return bad_attribute(node, "reduction is " + reduction);
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  FETTLE_TRY_VOID(check_rank(node, 1, rank_of(node, 0) - 1, rank_of(node, 0) - 1));
  for (size_t d = 0; d < shape_of(node, 1).size(); ++d)
    FETTLE_TRY_VOID(common_dim(node, shape_of(node, 0)[d == 0 ? 0 : d + 1], shape_of(node, 1)[d], "scores and labels"));
  const DType dtype = input->dtype();
  Value* kept = nullptr;  // 1 where the target counts
  if (node.attrs.has("ignore_index")) {
    Value* ignored = g.constant(reshaped(int_list({{node.attrs.get_int("ignore_index", 0)}}), {}));
    Value* is_ignored = g("Equal", {g.cast(target, kI64), ignored});
    target = g("Where", {is_ignored, g.number(0, target->dtype()), target});
    kept = g("Where", {is_ignored, g.number(0, dtype), g.number(1, dtype)});
  }
  Value* likelihood = g("GatherElements", {input, g.unsqueeze(target, {1})}, {{{"axis", int64_t{1}}}});
  Value* loss = g("Neg", {g("Squeeze", {likelihood}, {{{"axes", std::vector<int64_t>{1}}}})});
  Value* used = weights ? g("Gather", {weights, target}) : nullptr;
  if (kept) used = used ? g("Mul", {used, kept}) : kept;
  if (used) loss = g("Mul", {loss, used});
  if (reduction == "none") return loss;
  const std::vector<int64_t> axes = first_numbers(loss->shape().size());
  if (reduction == "mean" && !used) return g.reduce("ReduceMean", loss, axes, false);
  Value* sum = g.reduce("ReduceSum", loss, axes, false);
  return reduction == "sum" ? sum : g("Div", {sum, g.reduce("ReduceSum", used, axes, false)});
}

Result<std::vector<Value*>> negative_log_likelihood(Lowering& g, const Node& node) {
  FETTLE_TRY(Value * loss, likelihood_loss(g, node, node.inputs[0], node.inputs[1], node.input(2)));
  return std::vector{loss};
}

// (scores, labels, weights) → (loss, logarithms of the probabilities)
Result<std::vector<Value*>> cross_entropy(Lowering& g, const Node& node) {
  FETTLE_TRY_VOID(check_rank(node, 0, 2));
  Value* logarithms = g("LogSoftmax", {node.inputs[0]}, {{{"axis", int64_t{1}}}});
  FETTLE_TRY(Value * loss, likelihood_loss(g, node, logarithms, node.inputs[1], node.input(2)));
  return std::vector{loss, logarithms};
}

constexpr OpDef loss_defs[] = {
    composite<negative_log_likelihood>("NegativeLogLikelihoodLoss", {2, 3}),
    composite<cross_entropy>("SoftmaxCrossEntropyLoss", {2, 3}, 2),
};

}  // namespace

extern constinit const OpFamily loss_ops{"loss", loss_defs};

}  // namespace fettle
