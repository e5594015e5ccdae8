#include <algorithm>
#include <functional>
#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// The constant's elements, one for each index along `axis` of a tensor of shape `like`; nothing where it varies along
// another dim or would enlarge the tensor.
std::optional<std::vector<double>> along_axis(const Value* value, const Shape& like, size_t axis) {
  if (!value || !value->is_constant() || !value->constant->dtype.is_float() || !like[axis].is_number())
    return std::nullopt;
  const ConstantTensor& c = *value->constant;
  if (c.shape.size() > like.size()) return std::nullopt;
  const size_t missing = like.size() - c.shape.size();
  const auto n = static_cast<size_t>(like[axis].value());
  for (size_t d = 0; d < c.shape.size(); ++d)
    if (c.shape[d] != 1 && (d + missing != axis || c.shape[d] != static_cast<int64_t>(n))) return std::nullopt;
  if (c.n_elems() == 1) return std::vector<double>(n, c.at(0));
  return to_doubles(c);
}

// A new constant: each element of `w` multiplied by factor(index along dim 0, index along dim 1).
std::optional<ConstantTensor> scaled(const ConstantTensor& w,
                                     const std::function<double(int64_t outer, int64_t inner)>& factor) {
  std::vector<double> values = to_doubles(w);
  const int64_t n_outer = w.shape[0], n_inner = w.shape[1];
  const size_t rest = n_outer * n_inner == 0 ? 0 : values.size() / static_cast<size_t>(n_outer * n_inner);
  size_t at = 0;
  for (int64_t i = 0; i < n_outer; ++i)
    for (int64_t j = 0; j < n_inner; ++j) {
      const double f = factor(i, j);
      for (size_t k = 0; k < rest; ++k) values[at++] *= f;
    }
  return exact_constant(values, w.dtype, w.shape);
}

std::optional<ConstantTensor> as_channels(const std::vector<double>& values, DType dtype) {
  return exact_constant(values, dtype, {static_cast<int64_t>(values.size())});
}

bool has_constant_weights(const Node* node) {
  if (node->erased || !node->op->weights) return false;
  const Value *w = node->inputs[1], *bias = node->input(2);
  const bool is_plain = node->op->weights->takes_bias || w->rank() == 2;  // no weights for each of a batch
  return w->is_constant() && w->constant->dtype.is_float() && w->rank() >= 2 && is_plain &&
         (!bias || bias->is_constant());
}

// Which output channel an element of the weights belongs to.
int64_t channel_of(const Node* node, int64_t outer, int64_t inner) {
  if (node->op->weights->channel_dim == 0) return outer;
  const ConstantTensor& w = *node->inputs[1]->constant;
  const int64_t in_per_group = std::max<int64_t>(1, w.shape[0] / node->attrs.get_int("group", 1));
  return outer / in_per_group * w.shape[1] + inner;
}

bool scale_outputs(Graph& graph, Node* node, const std::vector<double>& s) {
  auto weights = scaled(*node->inputs[1]->constant,
                        [&](int64_t i, int64_t j) { return s[static_cast<size_t>(channel_of(node, i, j))]; });
  if (!weights) return false;
  if (const Value* bias = node->input(2)) {
    std::vector<double> b = to_doubles(*bias->constant);
    for (size_t i = 0; i < b.size(); ++i) b[i] *= s[i];
    auto made = as_channels(b, bias->constant->dtype);
    if (!made) return false;
    graph.set_input(node, 2, graph.add_constant(bias->name, std::move(*made)));
  }
  graph.set_input(node, 1, graph.add_constant(node->inputs[1]->name, std::move(*weights)));
  return true;
}

bool add_to_bias(Graph& graph, Node* node, const std::vector<double>& t) {
  std::vector<double> b = t;
  std::string name = node->name + ".bias";
  if (const Value* bias = node->input(2)) {
    name = bias->name;
    for (size_t i = 0; i < b.size(); ++i) b[i] += bias->constant->at(static_cast<int64_t>(i));
  }
  auto made = as_channels(b, node->inputs[1]->constant->dtype);
  if (made) graph.set_input(node, 2, graph.add_constant(name, std::move(*made)));
  return made.has_value();
}

// conv(x) * s, conv(x) + t, matmul(x, w) * s: the node after `node`, if it can join it.
bool fold_after(Graph& graph, Node* node) {
  Value* y = node->outputs[0];
  Node* user = only_user(graph, y);
  const WeightsRule& rule = *node->op->weights;
  const bool product = is(user, "Mul");
  if (!product && !(is(user, "Add") && rule.takes_bias)) return false;
  if (user->inputs[0] == user->inputs[1]) return false;
  const Value* other = user->inputs[0] == y ? user->inputs[1] : user->inputs[0];
  const size_t axis = static_cast<size_t>(rule.output_dim < 0 ? y->rank() + rule.output_dim : rule.output_dim);
  const auto values = along_axis(other, y->shape(), axis);
  if (!values || !(product ? scale_outputs(graph, node, *values) : add_to_bias(graph, node, *values))) return false;
  graph.replace_node(user, y);
  return true;
}

bool is_unpadded(const Node* conv) {
  const std::string auto_pad = conv->attrs.get_string("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return true;
  if (auto_pad != "NOTSET" && !auto_pad.empty()) return false;
  const auto pads = conv->attrs.get_ints("pads");
  return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
}

// conv(x * s), and without padding conv(x + t): the node before a convolution, if nothing else uses it.
bool fold_before(Graph& graph, Node* conv) {
  Value* x = conv->inputs[0];
  Node* before = made_only_for_us(graph, x, "Mul");
  const bool product = before != nullptr;
  if (!before) before = made_only_for_us(graph, x, "Add");
  if (!before || (!product && !is_unpadded(conv))) return false;
  const auto found = operands(before, [&](const Value* v) { return along_axis(v, x->shape(), 1).has_value(); });
  if (!found || found->second->shape() != x->shape()) return false;
  const auto values = *along_axis(found->first, x->shape(), 1);
  const ConstantTensor& w = *conv->inputs[1]->constant;
  const int64_t group = conv->attrs.get_int("group", 1), out_per_group = w.shape[0] / group, n_inner = w.shape[1];
  const auto of_input = [&](int64_t oc, int64_t ic) {
    return values[static_cast<size_t>(oc / out_per_group * n_inner + ic)];
  };
  if (product) {
    auto data = scaled(w, of_input);
    if (!data) return false;
    graph.set_input(conv, 1, graph.add_constant(conv->inputs[1]->name, std::move(*data)));
  } else {
    const std::vector<double> elems = to_doubles(w);
    const size_t taps = elems.size() / static_cast<size_t>(w.shape[0] * n_inner);
    std::vector<double> bias(static_cast<size_t>(w.shape[0]));
    for (int64_t oc = 0; oc < w.shape[0]; ++oc)
      for (int64_t ic = 0; ic < n_inner; ++ic)
        for (size_t k = 0; k < taps; ++k)
          bias[static_cast<size_t>(oc)] += elems[static_cast<size_t>(oc * n_inner + ic) * taps + k] * of_input(oc, ic);
    if (!add_to_bias(graph, conv, bias)) return false;
  }
  graph.set_input(conv, 0, found->second);
  merge_provenance(conv, before);
  graph.erase(before);
  return true;
}

}  // namespace

Result<> fold_affine(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (!has_constant_weights(node)) continue;
    while (fold_after(graph, node)) {
    }
    if (node->op->image != ImageWork::kConvolution) continue;
    while (fold_before(graph, node)) {
    }
  }
  return {};
}

Result<> lower_batch_norm(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (!is(node, "BatchNormalization")) continue;
    const auto is_known = [](const Value* v) { return v->is_constant(); };
    if (!std::all_of(node->inputs.begin() + 1, node->inputs.end(), is_known)) continue;
    const auto list = [&](size_t i) { return to_doubles(*node->inputs[i]->constant); };
    const std::vector<double> scale = list(1), bias = list(2), mean = list(3), variance = list(4);
    const double epsilon = node->attrs.get_float("epsilon", 1e-5);
    std::vector<double> factor, offset;
    for (size_t c = 0; c < scale.size(); ++c) {
      factor.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
      offset.push_back(bias[c] - mean[c] * factor.back());
    }
    // One element a channel, aligned with dim 1.
    std::vector<int64_t> shape(static_cast<size_t>(node->inputs[0]->rank() - 1), 1);
    shape[0] = static_cast<int64_t>(factor.size());
    const DType dtype = node->output()->dtype();
    auto factors = exact_constant(factor, dtype, shape), offsets = exact_constant(offset, dtype, shape);
    if (!factors || !offsets) continue;
    Value* s = graph.add_constant(node->name + ".factor", std::move(*factors));
    Value* t = graph.add_constant(node->name + ".offset", std::move(*offsets));
    Node* product = insert(graph, node, "Mul", {node->inputs[0], s});
    if (product) replace_with(graph, node, "Add", {product->outputs[0], t});
  }
  return {};
}

}  // namespace fettle::passes
