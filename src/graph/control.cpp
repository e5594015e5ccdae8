#include "graph/control.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {
namespace {

bool is_known(const Value* value, bool truth) {
  return value && value->is_constant() && value->constant->n_elems() == 1 && (value->constant->int_at(0) != 0) == truth;
}
bool is_true(const Value* value) { return is_known(value, true); }

}  // namespace

bool is_branch(const Node& node) { return node.op->name == "If"; }
bool is_loop(const Node& node) { return node.op->name == "Loop"; }
bool is_scan(const Node& node) { return node.op->name == "Scan"; }

LoopParts::LoopParts(const Node& loop)
    : node(loop),
      n_carried(static_cast<int>(loop.attrs.get_int("carried", -1))),
      n_scans(static_cast<int>(loop.bodies[0]->outputs().size()) - 1 - n_carried) {}

bool LoopParts::is_counted() const {
  const bool begins = !first_condition() || is_true(first_condition());
  const Value* after = condition_out();
  while (after->producer && after->producer->op->name == "Identity") after = after->producer->input(0);
  return begins && (is_true(after) || after == condition_in());
}

Dim LoopParts::iterations() const {
  Dim most = kMaxDim;
  if (limit())
    if (const auto content = ops::content_of(*limit()); content && content->size() == 1) {
      most = max(0, min((*content)[0], kMaxDim));
      if (is_counted()) return most;
    }
  if (is_known(first_condition(), false)) return 0;
  const std::vector<Dim> defined = dims_of_attr(node, kDefinesKey);
  if (!defined.empty() && !(defined.back() == Dim(-1))) return defined.back();
  return Dim::symbol(node.name + ".iterations", 0, most.max());
}

Captured captured_inputs(const Node& node) {
  if (is_branch(node)) return {kFirstArgument, kFirstArgument};
  if (is_scan(node)) {
    const int64_t own = node.attrs.get_int("carried", 0) + node.attrs.get_int("num_scan_inputs", 0);
    return {std::min(static_cast<size_t>(std::max<int64_t>(own, 0)), node.inputs.size()), 0};
  }
  FETTLE_CHECK(is_loop(node));
  return {LoopParts(node).first_captured(), 0};
}

void settle_captured(Graph& graph, Node* node) {
  const Captured captured = captured_inputs(*node);
  for (size_t i = node->inputs.size(); i-- > captured.first;) {
    Value* given = node->inputs[i];
    bool is_read = false;
    for (const auto& body : node->bodies) {
      Value* taken = body->inputs()[i - captured.node_only];
      if (given->is_constant() && body->use_count(taken) > 0)
        body->replace_uses(taken, body->add_constant(taken->name, *given->constant));
      is_read = is_read || body->use_count(taken) > 0;
    }
    if (is_read) continue;
    for (const auto& body : node->bodies) body->remove_input(i - captured.node_only);
    graph.remove_input(node, i);
  }
}

std::vector<Value*> inline_body(Graph& graph, const Graph& body, const std::vector<Value*>& arguments,
                                const Provenance& provenance, std::vector<Node*>* added) {
  std::unordered_map<const Value*, Value*> values;
  for (size_t i = 0; i < arguments.size(); ++i) values[body.inputs()[i]] = arguments[i];
  const auto of = [&](const Value* value) -> Value* {
    if (!value) return nullptr;
    const auto [at, is_new] = values.try_emplace(value, nullptr);
    if (is_new) {
      FETTLE_CHECK(value->is_constant());
      at->second = graph.add_constant(value->name, *value->constant);
    }
    return at->second;
  };
  for (const Node* node : body.nodes()) {
    if (node->erased) continue;
    std::vector<Value*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(of(input));
    Node* made = graph.add_copy(*node, std::move(inputs));
    made->provenance.merge(provenance);
    for (size_t i = 0; i < node->outputs.size(); ++i) values[node->outputs[i]] = made->outputs[i];
    if (added) added->push_back(made);
  }
  std::vector<Value*> results;
  for (const GraphOutput& output : body.outputs()) results.push_back(of(output.value));
  return results;
}

}  // namespace fettle
