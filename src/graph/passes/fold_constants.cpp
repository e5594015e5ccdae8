#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/fold_node.h"
#include "graph/passes/passes.h"

namespace fettle::passes {

namespace {
// Products and reductions over more than this many pairs of elements are left to the compiled model.
constexpr int64_t kMaxPairs = int64_t{1} << 31;
// Of static tensors.
int64_t bytes_of(const std::vector<Value*>& values) {
  int64_t bytes = 0;
  for (const Value* value : values)
    if (value)
      bytes += value->is_constant() ? value->constant->size_bytes
                                    : checked_bytes(value->dtype(), value->extents()).value_or(kMaxTensorBytes);
  return bytes;
}

}  // namespace

bool can_fold(const Node& node, int64_t max_bytes) {
  if (is_host(node) ? node.op->host->only_runs : !node.op->compute) return false;
  int64_t in_bytes = 0, out_bytes = 0, largest = 0;
  for (const Value* input : node.inputs) {
    if (!input) continue;
    if (!input->is_constant()) return false;
    in_bytes += input->constant->size_bytes;
    largest = std::max(largest, input->constant->n_elems());
  }
  for (const Value* output : node.outputs) {
    if (!output->is_static()) return false;
    const auto bytes = checked_bytes(output->dtype(), output->extents());
    if (!bytes) return false;
    out_bytes += *bytes;
  }
  const bool combines = node.op->fusion == FusionKind::kComplexOutFusable || node.op->fusion == FusionKind::kReduction;
  if (combines && largest > 0 && out_bytes / largest > kMaxPairs / largest / largest) return false;
  return out_bytes <= std::max(in_bytes, max_bytes);
}

bool folds_at_once(const Node& node) {
  if (node.op->name == "DequantizeLinear") return false;  // products read the bytes (lower_quantized)
  constexpr int64_t kSmallBytes = 4096;
  return can_fold(node, node.inputs.empty() ? 0 : kSmallBytes) && bytes_of(node.outputs) <= kSmallBytes;
}

Result<bool> fold_node(Graph& graph, Node* node, const PassContext& context) {
  std::vector<ConstantTensor> inputs;
  for (const Value* input : node->inputs)
    if (input) inputs.push_back(*input->constant);
  auto results = evaluate_node(*node, inputs, context.run);
  if (!results) return false;
  hand_provenance_to_users(node);
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    Value* output = node->outputs[i];
    graph.replace_uses(output, graph.add_constant(output->name, std::move((*results)[i])));
  }
  const std::vector<Value*> read = node->inputs;
  graph.erase(node);
  // Chains over large constants hold one of them at a time.
  for (Value* input : read)
    if (input && graph.use_count(input) == 0) input->constant.reset();
  return true;
}

Result<> fold_constants(Graph& graph, const PassContext& context) {
  int64_t grown_bytes = 0;
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (node->erased || !can_fold(*node, context.limits.folded_bytes)) continue;
    const int64_t more = bytes_of(node->outputs) - bytes_of(node->inputs);
    if (more > 0 && grown_bytes + more > context.limits.folded_total_bytes) continue;
    FETTLE_TRY(const bool folded, fold_node(graph, node, context));
    if (folded) grown_bytes += std::max<int64_t>(0, more);
  }
  return {};
}

Result<> drop_dead(Graph& graph, const PassContext&) {
  const std::vector<Node*> nodes = graph.nodes();
  std::set<std::string, std::less<>> sizes;  // that later nodes speak of
  for (size_t i = nodes.size(); i-- > 0;) {
    if (nodes[i]->erased) continue;
    const bool used =
        std::ranges::any_of(nodes[i]->outputs, [&](const Value* output) { return graph.use_count(output) > 0; }) ||
        std::ranges::any_of(defined_sizes(*nodes[i]),
                            [&](const Dim& size) { return sizes.contains(size.symbol_name()); });
    if (used || nodes[i]->attrs.has(kReasonKey))
      for_each_size(*nodes[i], [&](std::string_view size) { sizes.emplace(size); });
    else
      graph.erase(nodes[i]);
  }
  return {};
}

}  // namespace fettle::passes
