#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/control.h"
#include "graph/late_sizes.h"
#include "graph/loop_kernel.h"
#include "graph/op_util.h"
#include "graph/passes/batch_node.h"
#include "graph/passes/lowering.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

/// What is kept of all iterations at once: this much stays in a cache. More may be kept where the rows take much.
constexpr int64_t kMostKeptBytes = 1 << 20;
constexpr int64_t kMostOfRows = 4;

class LoopDistribution {
 public:
  LoopDistribution(Graph& graph, Node* node)
      : graph_(graph), node_(node), loop_(*node), body_(*node->bodies[0]), n_(loop_.iterations()) {}

  Result<> run() {
    find_leaving();
    if (leaving_.empty()) return {};
    find_kept();
    if (is_too_much()) return {};
    const Node* made = loop_.n_carried > 0 || !kept_.empty() ? without_leaving() : nullptr;
    FETTLE_TRY_VOID(add_batched());
    for (int i = 0; i < loop_.n_carried; ++i)
      graph_.replace_uses(node_->outputs[static_cast<size_t>(i)], made->outputs[static_cast<size_t>(i)]);
    for (int i = 0; i < loop_.n_scans; ++i)
      graph_.replace_uses(node_->outputs[static_cast<size_t>(loop_.n_carried + i)],
                          of_all_.at(loop_.scan_out(i)).value);
    graph_.erase(node_);
    return {};
  }

 private:
  // Nodes of which only rows come, and which have a form for all iterations; whoever reads one leaves, too.
  void find_leaving() {
    std::unordered_set<const Node*> stays;
    const std::vector<Node*>& nodes = body_.nodes();
    const auto needs = [&](const Value* value) {
      if (value->producer) stays.insert(value->producer);
    };
    needs(loop_.condition_out());
    for (int i = 0; i < loop_.n_carried; ++i) needs(loop_.carried_out(i));
    for (size_t k = nodes.size(); k-- > 0;)
      if (stays.contains(nodes[k]))
        for (const Value* input : nodes[k]->inputs)
          if (input) needs(input);
    const auto inner = sizes_of_body(*node_, 0);
    const std::vector<bool> varies = varying();
    for (size_t k = nodes.size(); k-- > 0;) {
      const Node* node = nodes[k];
      bool leaves = !node->erased && !stays.contains(node) && varies[k] && defined_sizes(*node).empty();
      for_each_size(*node, [&](std::string_view size) { leaves = leaves && !inner.contains(size); });
      for (const Value* input : node->inputs) leaves = leaves && (!input || may_be_kept(*input, inner));
      for (const Value* output : node->outputs)
        for (const Node* user : output->users) leaves = leaves && leaving_.contains(user);
      if (leaves && can_be_batched(*node, [&](const Value* value) { return varies_.contains(value); }))
        leaving_.insert(node);
    }
  }

  // What a node that leaves may read: what comes from around, and what is another in each iteration, of a shape that
  // none of them decides. (What the body makes once for all is not handed on.)
  bool may_be_kept(const Value& value, const std::set<std::string, std::less<>>& inner) const {
    if (std::ranges::any_of(value.shape(), [&](const Dim& dim) { return mentions_any(dim, inner); })) return false;
    return !value.producer || value.is_constant() || varies_.contains(&value);
  }

  // Which nodes' values are others in each iteration.
  std::vector<bool> varying() {
    varies_.insert(body_.inputs().begin(), body_.inputs().begin() + static_cast<ptrdiff_t>(loop_.first_captured()));
    std::vector<bool> varies;
    for (const Node* node : body_.nodes()) {
      const bool does = std::ranges::any_of(node->inputs, [&](const Value* v) { return varies_.contains(v); });
      varies.push_back(does);
      if (does) varies_.insert(node->outputs.begin(), node->outputs.end());
    }
    return varies;
  }

  // What those that leave read of what iterations make: rows, from now on.
  void find_kept() {
    const auto keep = [&](Value* value) {
      if (std::ranges::find(kept_, value) == kept_.end()) kept_.push_back(value);
    };
    for (int i = 0; i < loop_.n_scans; ++i)
      if (!leaving_.contains(loop_.scan_out(i)->producer)) keep(loop_.scan_out(i));
    n_own_rows_ = kept_.size();
    for (const Node* node : body_.nodes()) {
      if (!leaving_.contains(node)) continue;
      for (Value* input : node->inputs)
        if (input && varies_.contains(input) && input != loop_.iteration() && !leaving_.contains(input->producer))
          keep(input);
    }
  }

  bool is_too_much() const {
    const auto bytes_of = [&](const Value* value) {
      return (n_ * element_count(value->shape()) * value->dtype().element_bytes()).typical();
    };
    int64_t of_rows = 0;
    for (int i = 0; i < loop_.n_scans; ++i) of_rows += bytes_of(loop_.scan_out(i));
    const int64_t most = std::max(kMostKeptBytes, kMostOfRows * of_rows);
    const auto is_more = [&](const Value* value) { return bytes_of(value) > most; };
    return std::any_of(kept_.begin() + static_cast<ptrdiff_t>(n_own_rows_), kept_.end(), is_more) ||
           std::ranges::any_of(leaving_, [&](const Node* node) { return std::ranges::any_of(node->outputs, is_more); });
  }

  // The loop of what stays, with a row for all that is kept.
  Node* without_leaving() {
    auto body = std::make_shared<Graph>(body_.name());
    std::unordered_map<const Value*, Value*> inside;
    for (const Value* input : body_.inputs()) {
      Value* taken = inside[input] = body->add_input(input->name, *input->type);
      taken->content = input->content;
    }
    const auto in_body = [&](const Value* value) {
      if (!value) return static_cast<Value*>(nullptr);
      Value*& known = inside[value];
      if (!known) known = body->add_constant(value->name, *value->constant);
      return known;
    };
    for (const Node* node : body_.nodes()) {
      if (node->erased || leaving_.contains(node)) continue;
      std::vector<Value*> inputs;
      for (const Value* input : node->inputs) inputs.push_back(in_body(input));
      const Node* copy = body->add_copy(*node, std::move(inputs));
      for (size_t i = 0; i < node->outputs.size(); ++i) inside[node->outputs[i]] = copy->outputs[i];
    }
    for (int i = 0; i <= loop_.n_carried; ++i) {
      const GraphOutput& output = body_.outputs()[static_cast<size_t>(i)];
      body->add_output(output.name, in_body(output.value));
    }
    for (const Value* value : kept_) body->add_output("row", in_body(value));
    body->sort();
    const size_t n_carried = static_cast<size_t>(loop_.n_carried);
    Node* made = graph_.add_node(node_->op, node_->name, node_->inputs, node_->attrs, {}, n_carried + kept_.size());
    made->provenance = node_->provenance;
    made->bodies.push_back(std::move(body));
    for (size_t i = 0; i < n_carried; ++i) made->outputs[i]->type = node_->outputs[i]->type;
    for (size_t k = 0; k < kept_.size(); ++k) {
      Value* rows = made->outputs[n_carried + k];
      rows->type = TensorType{kept_[k]->dtype(), ops::joined(Shape{n_}, kept_[k]->shape())};
      of_all_[kept_[k]] = {rows, true};
    }
    return made;
  }

  Result<> add_batched() {
    const auto of_all = [&](Value* value) -> Batched {
      if (!value) return {};
      const auto found = of_all_.find(value);
      if (found != of_all_.end()) return found->second;
      Batched& made = of_all_[value];
      if (value->is_constant()) {
        made.value = graph_.add_constant(value->name, *value->constant);
      } else {
        const auto input = std::ranges::find(body_.inputs(), value) - body_.inputs().begin();
        made.value = node_->inputs[static_cast<size_t>(input)];
      }
      return made;
    };
    for (Node* node : body_.nodes()) {
      if (!leaving_.contains(node)) continue;
      Lowering g(graph_, *node);
      std::vector<Batched> inputs;
      for (Value* input : node->inputs) {
        if (input == loop_.iteration() && !of_all_.contains(input)) of_all_[input] = {g.iota(n_), true, true};
        inputs.push_back(of_all(input));
      }
      const std::vector<Value*> made = batched(g, *node, n_, inputs);
      FETTLE_TRY_VOID(g.status());
      for (size_t i = 0; i < made.size(); ++i) of_all_[node->outputs[i]] = {made[i], true};
    }
    return {};
  }

  Graph& graph_;
  Node* node_;
  const LoopParts loop_;
  const Graph& body_;
  const Dim n_;
  std::unordered_set<const Value*> varies_;
  std::unordered_set<const Node*> leaving_;
  std::vector<Value*> kept_;
  size_t n_own_rows_ = 0;
  std::unordered_map<const Value*, Batched> of_all_;  // of the body's values, in the graph around
};

bool may_be_distributed(const Node& node) {
  if (node.erased || !is_loop(node)) return false;
  const LoopParts loop(node);
  return loop.n_scans > 0 && loop.limit() && ops::content_of(*loop.limit()) && loop.is_counted() &&
         !can_be_loop_kernel(node);
}

}  // namespace

Result<> distribute_loops(Graph& model, const PassContext&) {
  Result<> done;
  for_each_graph(model, [&](Graph& graph) {
    for (Node* node : std::vector<Node*>(graph.nodes())) {
      if (!done || !may_be_distributed(*node)) continue;
      done = LoopDistribution(graph, node).run();
    }
    graph.sort();
  });
  return done;
}

}  // namespace fettle::passes
