#include <algorithm>
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

// What a node does to each channel: x * scale + offset.
struct ChannelMap {
  Value* data = nullptr;  // x
  std::vector<double> scale, offset;

  bool has_offset() const {
    return std::ranges::any_of(offset, [](double o) { return o != 0; });
  }
  bool has_scale() const {
    return std::ranges::any_of(scale, [](double f) { return f != 1; });
  }
};

// Of a normalization by constants.
std::optional<ChannelMap> map_of_batch_norm(const Node* node) {
  if (node->inputs.size() != 5 ||
      !std::all_of(node->inputs.begin() + 1, node->inputs.end(), [](const Value* v) { return v->is_constant(); }))
    return std::nullopt;
  const auto list = [&](size_t i) { return to_doubles(*node->inputs[i]->constant); };
  const std::vector<double> scale = list(1), bias = list(2), mean = list(3), variance = list(4);
  const double epsilon = node->attrs.get_float("epsilon", 1e-5);
  ChannelMap map{.data = node->inputs[0]};
  for (size_t c = 0; c < scale.size(); ++c) {
    map.scale.push_back(scale[c] / std::sqrt(variance[c] + epsilon));
    map.offset.push_back(bias[c] - mean[c] * map.scale.back());
  }
  return map;
}

// Of a product with, a division by, a sum with, or a normalization by one constant for each index along `axis`.
std::optional<ChannelMap> map_along(const Node* node, size_t axis) {
  if (is(node, "BatchNormalization")) return axis == 1 ? map_of_batch_norm(node) : std::nullopt;
  const bool division = is(node, "Div"), product = is(node, "Mul") || division;
  if (!product && !is(node, "Add")) return std::nullopt;
  if (division && !node->inputs[1]->is_constant()) return std::nullopt;
  const Shape& shape = node->output()->shape();
  const auto found = operands(node, [&](const Value* v) { return along_axis(v, shape, axis).has_value(); });
  if (!found || found->second->shape() != shape) return std::nullopt;
  std::vector<double> values = *along_axis(found->first, shape, axis);
  const size_t n = values.size();
  if (division)
    for (double& v : values) v = 1 / v;
  if (!std::ranges::all_of(values, [](double v) { return std::isfinite(v); })) return std::nullopt;
  if (product) return ChannelMap{found->second, std::move(values), std::vector<double>(n, 0.0)};
  return ChannelMap{found->second, std::vector<double>(n, 1.0), std::move(values)};
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

// New weights for `node`: each multiplied by factor(index along dim 0, index along dim 1), and rounded once. Nothing
// where the type cannot hold them: an error above half an epsilon of the largest weight of the channel.
template <class Factor>
std::optional<ConstantTensor> scaled_weights(const Node* node, const Factor& factor) {
  const ConstantTensor& w = *node->inputs[1]->constant;
  const int64_t n_outer = w.shape[0], n_inner = w.shape[1];
  const int64_t rest = n_outer * n_inner == 0 ? 0 : w.n_elems() / (n_outer * n_inner);
  // visit(first element, end, outer, inner) of each pair of channels
  const auto each = [&](const auto& visit) {
    int64_t at = 0;
    for (int64_t i = 0; i < n_outer; ++i)
      for (int64_t j = 0; j < n_inner; ++j, at += rest)
        visit(static_cast<size_t>(at), static_cast<size_t>(at + rest), i, j);
  };
  if (w.dtype == kF32) {
    auto made = make_tensor(kF32, w.shape);
    if (!made) return std::nullopt;
    const std::span<const float> from = w.elems<float>();
    const std::span<float> to = made->elems<float>();
    each([&](size_t at, size_t end, int64_t i, int64_t j) {
      const double f = factor(i, j);
      for (; at < end; ++at) to[at] = static_cast<float>(from[at] * f);
    });
    return std::move(*made).finish();
  }
  std::vector<double> values = to_doubles(w);
  std::vector<double> largest;  // of each channel
  each([&](size_t at, size_t end, int64_t i, int64_t j) {
    const auto channel = static_cast<size_t>(channel_of(node, i, j));
    if (channel >= largest.size()) largest.resize(channel + 1);
    const double f = factor(i, j);
    for (; at < end; ++at) {
      values[at] *= f;
      largest[channel] = std::max(largest[channel], std::abs(values[at]));
    }
  });
  auto made = to_tensor(values, w.dtype, w.shape);
  if (!made) return std::nullopt;
  if (computed_dtype(w.dtype) == w.dtype) return std::move(*made);
  const double error = constant_error(w.dtype);
  bool holds = true;
  each([&](size_t at, size_t end, int64_t i, int64_t j) {
    const double most = largest[static_cast<size_t>(channel_of(node, i, j))];
    for (; at < end; ++at) holds = holds && std::abs(made->at(static_cast<int64_t>(at)) - values[at]) <= error * most;
  });
  if (!holds) return std::nullopt;
  return std::move(*made);
}

// What is added to each channel, as exact as it is computed: a bias of halves that these do not have is of singles.
std::optional<ConstantTensor> as_bias(const std::vector<double>& values, DType dtype) {
  const std::vector<int64_t> shape = {static_cast<int64_t>(values.size())};
  auto exact = exact_constant(values, dtype, shape);
  return exact ? std::move(exact) : exact_constant(values, computed_dtype(dtype), shape);
}

// The node's bias becomes bias * map.scale + map.offset.
bool set_bias(Graph& graph, Node* node, const ChannelMap& map) {
  const Value* bias = node->input(2);
  if (!bias && !map.has_offset()) return true;
  std::vector<double> b = map.offset;
  for (size_t i = 0; bias && i < b.size(); ++i) b[i] += bias->constant->at(static_cast<int64_t>(i)) * map.scale[i];
  auto made = as_bias(b, node->inputs[1]->constant->dtype);
  if (!made) return false;
  graph.set_input(node, 2, graph.add_constant(bias ? bias->name : node->name + ".bias", std::move(*made)));
  return true;
}

// The node's result becomes result * map.scale + map.offset.
bool map_outputs(Graph& graph, Node* node, const ChannelMap& map) {
  std::optional<ConstantTensor> weights;
  if (map.has_scale()) {
    weights = scaled_weights(
        node, [&](int64_t i, int64_t j) { return map.scale[static_cast<size_t>(channel_of(node, i, j))]; });
    if (!weights) return false;
  }
  if (!set_bias(graph, node, map)) return false;
  if (weights) graph.set_input(node, 1, graph.add_constant(node->inputs[1]->name, std::move(*weights)));
  return true;
}

// conv(x) * s, conv(x) + t, matmul(x, w) * s: as many nodes after `node` as can join it.
bool fold_after(Graph& graph, Node* node) {
  Value* const y = node->outputs[0];
  const WeightsRule& rule = *node->op->weights;
  const size_t axis = static_cast<size_t>(rule.output_dim < 0 ? y->rank() + rule.output_dim : rule.output_dim);
  std::vector<Node*> chain;
  std::vector<ChannelMap> maps;  // of each beginning of the chain
  const Value* result = y;
  for (Node* user = only_user(graph, y); user; user = only_user(graph, result)) {
    auto map = map_along(user, axis);
    if (!map || map->data != result || (map->has_offset() && !rule.takes_bias)) break;
    for (size_t i = 0; !maps.empty() && i < map->scale.size(); ++i) {
      map->offset[i] += maps.back().offset[i] * map->scale[i];
      map->scale[i] *= maps.back().scale[i];
    }
    chain.push_back(user);
    maps.push_back(std::move(*map));
    result = user->outputs[0];
  }
  size_t n = chain.size();
  while (n > 0 && !map_outputs(graph, node, maps[n - 1])) --n;
  for (size_t i = 0; i < n; ++i) graph.replace_node(chain[i], y);
  return n > 0;
}

bool is_unpadded(const Node* conv) {
  const std::string auto_pad = conv->attrs.get_string("auto_pad", "NOTSET");
  if (auto_pad == "VALID") return true;
  if (auto_pad != "NOTSET" && !auto_pad.empty()) return false;
  const auto pads = conv->attrs.get_ints("pads");
  return std::all_of(pads.begin(), pads.end(), [](int64_t p) { return p == 0; });
}

// conv(x * s), and without padding conv(x * s + t): the node before a convolution, if nothing else uses it.
bool fold_before(Graph& graph, Node* conv) {
  const Value* x = conv->inputs[0];
  Node* before = graph.use_count(x) == 1 && !x->is_constant() ? x->producer : nullptr;
  const auto map = before ? map_along(before, 1) : std::nullopt;
  if (!map || map->data->is_constant() || (map->has_offset() && !is_unpadded(conv))) return false;
  const ConstantTensor& w = *conv->inputs[1]->constant;
  const int64_t group = conv->attrs.get_int("group", 1), out_per_group = w.shape[0] / group, n_inner = w.shape[1];
  const auto input_of = [&](int64_t oc, int64_t ic) { return static_cast<size_t>(oc / out_per_group * n_inner + ic); };
  const auto weights = scaled_weights(conv, [&](int64_t oc, int64_t ic) { return map->scale[input_of(oc, ic)]; });
  if (!weights) return false;
  const std::vector<double> elems = to_doubles(w);
  const size_t taps = elems.size() / static_cast<size_t>(std::max<int64_t>(1, w.shape[0] * n_inner));
  ChannelMap bias{nullptr, std::vector<double>(static_cast<size_t>(w.shape[0]), 1.0),
                  std::vector<double>(static_cast<size_t>(w.shape[0]))};
  for (int64_t oc = 0; oc < w.shape[0]; ++oc)
    for (int64_t ic = 0; ic < n_inner; ++ic)
      for (size_t k = 0; k < taps; ++k)
        bias.offset[static_cast<size_t>(oc)] +=
            elems[static_cast<size_t>(oc * n_inner + ic) * taps + k] * map->offset[input_of(oc, ic)];
  if (!set_bias(graph, conv, bias)) return false;
  graph.set_input(conv, 1, graph.add_constant(conv->inputs[1]->name, *weights));
  graph.set_input(conv, 0, map->data);
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
    const auto map = map_of_batch_norm(node);
    if (!map) continue;
    // One element a channel, aligned with dim 1.
    std::vector<int64_t> shape(static_cast<size_t>(node->inputs[0]->rank() - 1), 1);
    shape[0] = static_cast<int64_t>(map->scale.size());
    const DType dtype = node->output()->dtype();
    auto factors = exact_constant(map->scale, dtype, shape), offsets = exact_constant(map->offset, dtype, shape);
    if (!factors || !offsets) continue;
    Value* s = graph.add_constant(node->name + ".factor", std::move(*factors));
    Value* t = graph.add_constant(node->name + ".offset", std::move(*offsets));
    Node* product = insert(graph, node, "Mul", {node->inputs[0], s});
    if (product) replace_with(graph, node, "Add", {product->outputs[0], t});
  }
  return {};
}

}  // namespace fettle::passes
