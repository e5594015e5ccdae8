#include <algorithm>
#include <cstring>
#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// One of several products or convolutions over the same input, with what follows it.
struct Sibling {
  Node* product = nullptr;
  const Value* weights = nullptr;
  const Value* bias = nullptr;  // of a convolution its third input, of a product what is added to it; or null
  std::vector<Node*> chain;     // the sum with the bias, then activations
  Value* result = nullptr;
  int64_t channels = 0;
};

size_t channel_dim(const Node* product) { return static_cast<size_t>(product->op->weights->channel_dim); }

std::optional<Sibling> open_sibling(const Graph& graph, Node* node) {
  if (!node->op->weights) return {};
  const bool takes_bias = node->op->weights->takes_bias;
  Sibling s{.product = node, .weights = node->input(1), .bias = node->input(2), .result = node->output()};
  if (!s.weights->is_constant()) return {};
  if (takes_bias ? node->attrs.get_int("group", 1) != 1 : s.weights->rank() != 2 || node->input(0)->rank() < 2)
    return {};
  if (s.bias && !s.bias->is_constant()) return {};
  s.channels = s.weights->extent(static_cast<int>(channel_dim(node)));
  const auto next = [&] { return only_user(graph, s.result); };
  if (Node* add = next(); !takes_bias && is(add, "Add")) {
    const auto found = operands(add, [&](const Value* v) {
      return v->is_constant() && v->rank() >= 1 && v->extent(-1) == s.channels && v->constant->n_elems() == s.channels;
    });
    if (found && found->second == s.result && add->output()->shape() == s.result->shape()) {
      s.bias = found->first;
      s.chain.push_back(add);
      s.result = add->output();
    }
  }
  for (Node* user = next(); is_pointwise(user) && user->inputs.size() == 1; user = next()) {
    s.chain.push_back(user);
    s.result = user->output();
  }
  return s;
}

// Whether one kernel can do both.
bool alike(const Sibling& a, const Sibling& b) {
  const auto activations = [](const Sibling& s) {
    return std::vector<Node*>(s.chain.begin() + (!s.product->op->weights->takes_bias && s.bias ? 1 : 0), s.chain.end());
  };
  const auto x = activations(a), y = activations(b);
  const auto same_rest = [&](size_t d) {
    return a.weights->extent(static_cast<int>(1 - d)) == b.weights->extent(static_cast<int>(1 - d));
  };
  if (a.product->op != b.product->op || !(a.product->attrs == b.product->attrs)) return false;
  if (a.weights->constant->dtype != b.weights->constant->dtype) return false;
  if (a.bias && b.bias && a.bias->dtype() != b.bias->dtype()) return false;
  if (a.weights->rank() != b.weights->rank() || !same_rest(channel_dim(a.product))) return false;
  for (int d = 2; d < a.weights->rank(); ++d)
    if (a.weights->extent(d) != b.weights->extent(d)) return false;
  return std::equal(x.begin(), x.end(), y.begin(), y.end(),
                    [](const Node* m, const Node* n) { return m->op == n->op && m->attrs == n->attrs; });
}

// Work that a kernel of its own for this sibling would take along.
bool is_used_by_epilogue(const Graph& graph, const Sibling& s) {
  return graph.is_output(s.result) || std::any_of(s.result->users.begin(), s.result->users.end(),
                                                  [](const Node* user) { return is_pointwise(user); });
}

// What siblings have side by side along a dim, the channels': their weights, or their biases, zero where there is none.
Result<ConstantTensor> stacked(const std::vector<Sibling>& siblings, const Value* Sibling::* part, DType dtype,
                               std::vector<int64_t> shape, size_t dim) {
  const size_t outer = dim == 0 ? 1 : static_cast<size_t>(shape[0]);
  const int64_t channels = shape[dim];
  FETTLE_TRY(TensorBuilder all, make_tensor(dtype, std::move(shape)));
  std::byte* to = all.bytes.get();
  for (size_t i = 0; i < outer; ++i)
    for (const Sibling& s : siblings) {
      const auto bytes = static_cast<size_t>(all.size_bytes / std::max<int64_t>(1, channels) * s.channels) / outer;
      if (const Value* from = s.*part) std::memcpy(to, from->constant->bytes.get() + i * bytes, bytes);
      to += bytes;
    }
  return std::move(all).finish();
}

Result<> combine(Graph& graph, const std::vector<Sibling>& siblings) {
  const Sibling& first = siblings[0];
  const WeightsRule& rule = *first.product->op->weights;
  const bool conv = rule.takes_bias;
  int64_t channels = 0;
  const Value* some_bias = nullptr;
  std::vector<int64_t> parts;
  for (const Sibling& s : siblings) {
    channels += s.channels;
    if (s.bias) some_bias = s.bias;
    parts.push_back(s.channels);
  }
  const DType dtype = first.weights->constant->dtype;
  const size_t dim = channel_dim(first.product);
  std::vector<int64_t> shape = first.weights->extents();
  shape[dim] = channels;
  FETTLE_TRY(ConstantTensor data, stacked(siblings, &Sibling::weights, dtype, std::move(shape), dim));
  Value* weights = graph.add_constant(first.weights->name, std::move(data));
  Value* bias = nullptr;
  if (some_bias) {
    FETTLE_TRY(ConstantTensor biases, stacked(siblings, &Sibling::bias, some_bias->dtype(), {channels}, 0));
    bias = graph.add_constant(first.product->name + ".bias", std::move(biases));
  }
  std::vector<Value*> inputs{first.product->input(0), weights};
  if (conv && bias) inputs.push_back(bias);
  Node* last = insert(graph, first.product, first.product->op->name, std::move(inputs), first.product->attrs);
  if (!last) return {};
  if (!conv && bias) last = insert(graph, first.product, "Add", {last->output(), bias});
  for (const Node* node : first.chain)
    if (node->inputs.size() == 1) last = insert(graph, node, node->op->name, {last->output()}, node->attrs);
  const int64_t axis = rule.output_dim < 0 ? last->output()->rank() + rule.output_dim : rule.output_dim;
  Attrs attrs{{"axis", axis}, {"split", parts}};
  Node* split = graph.add_node(find_op("Split"), first.product->name + ".parts", {last->output()}, std::move(attrs), {},
                               siblings.size());
  for (size_t i = 0; i < siblings.size(); ++i) {
    const Sibling& s = siblings[i];
    split->outputs[i]->type = s.result->type;
    merge_provenance(last, s.product);
    for (const Node* node : s.chain) merge_provenance(last, node);
    graph.replace_uses(s.result, split->outputs[i]);
    std::swap(s.result->name, split->outputs[i]->name);
  }
  split->provenance = last->provenance;
  for (const Sibling& s : siblings) {
    for (size_t i = s.chain.size(); i-- > 0;) graph.erase(s.chain[i]);
    graph.erase(s.product);
  }
  return {};
}

}  // namespace

Result<> combine_siblings(Graph& graph, const PassContext&) {
  std::vector<Value*> sources = graph.inputs();
  for (const Node* node : graph.nodes()) sources.insert(sources.end(), node->outputs.begin(), node->outputs.end());
  for (Value* source : sources) {
    std::vector<std::vector<Sibling>> families;
    for (Node* user : std::vector<Node*>(source->users)) {
      auto s = open_sibling(graph, user);
      if (!s || user->input(0) != source || is_used_by_epilogue(graph, *s)) continue;
      const auto family =
          std::find_if(families.begin(), families.end(), [&](const auto& members) { return alike(members[0], *s); });
      if (family == families.end())
        families.push_back({std::move(*s)});
      else
        family->push_back(std::move(*s));
    }
    for (const auto& family : families)
      if (family.size() > 1) FETTLE_TRY_VOID(combine(graph, family));
  }
  return {};
}

}  // namespace fettle::passes
