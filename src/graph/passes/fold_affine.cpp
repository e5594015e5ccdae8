#include <algorithm>
#include <functional>
#include <optional>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

// The constant's elements, one for each index along `axis` of a tensor of shape `like`; nothing where it varies along
// another dim or would enlarge the tensor.
std::optional<std::vector<float>> along_axis(const Value* value, const Shape& like, size_t axis) {
  if (!value || !value->is_constant() || value->constant->dtype != kF32 || !like[axis].is_number()) return std::nullopt;
  const ConstantTensor& c = *value->constant;
  if (c.shape.size() > like.size()) return std::nullopt;
  const size_t missing = like.size() - c.shape.size();
  const auto n = static_cast<size_t>(like[axis].value());
  for (size_t d = 0; d < c.shape.size(); ++d)
    if (c.shape[d] != 1 && (d + missing != axis || c.shape[d] != static_cast<int64_t>(n))) return std::nullopt;
  const auto elems = c.elems<float>();
  if (elems.size() == 1) return std::vector<float>(n, elems[0]);
  return std::vector<float>(elems.begin(), elems.end());
}

// A new constant: each element of `w` multiplied by factor(index along axis a, index along axis b).
Result<ConstantTensor> scaled(const ConstantTensor& w,
                              const std::function<float(int64_t outer, int64_t inner)>& factor) {
  FETTLE_TRY(TensorBuilder out, make_tensor(kF32, w.shape));
  const auto from = w.elems<float>();
  auto to = out.elems<float>();
  const int64_t n_outer = w.shape[0], n_inner = w.shape[1];
  const size_t rest = n_outer * n_inner == 0 ? 0 : from.size() / static_cast<size_t>(n_outer * n_inner);
  size_t at = 0;
  for (int64_t i = 0; i < n_outer; ++i)
    for (int64_t j = 0; j < n_inner; ++j) {
      const float f = factor(i, j);
      for (size_t k = 0; k < rest; ++k, ++at) to[at] = from[at] * f;
    }
  return std::move(out).finish();
}

ConstantTensor to_tensor(const std::vector<float>& values) {
  TensorBuilder out = make_tensor(kF32, {static_cast<int64_t>(values.size())}).value();
  std::copy(values.begin(), values.end(), out.elems<float>().begin());
  return std::move(out).finish();
}

bool has_constant_weights(const Node* node) {
  const Value* w = node->inputs[1];
  const Value* bias = node->input(2);
  return w->is_constant() && w->constant->dtype == kF32 && w->rank() >= 2 &&
         (!bias || (bias->is_constant() && bias->constant->dtype == kF32));
}

// Weights hold output channels in dim 0 (Conv), dim 1 within their group (ConvTranspose), or dim 1 (MatMul).
Result<> scale_outputs(Graph& graph, Node* node, const std::vector<float>& s) {
  const ConstantTensor& w = *node->inputs[1]->constant;
  const bool transposed = is(node, "ConvTranspose");
  const int64_t group = node->attrs.get_int("group", 1), in_per_group = std::max<int64_t>(1, w.shape[0] / group);
  FETTLE_TRY(ConstantTensor data, scaled(w, [&](int64_t i, int64_t j) {
               const int64_t channel = is(node, "Conv") ? i : transposed ? i / in_per_group * w.shape[1] + j : j;
               return s[static_cast<size_t>(channel)];
             }));
  graph.set_input(node, 1, graph.add_constant(node->inputs[1]->name, std::move(data)));
  if (const Value* bias = node->input(2)) {
    std::vector<float> b(bias->constant->elems<float>().begin(), bias->constant->elems<float>().end());
    for (size_t i = 0; i < b.size(); ++i) b[i] *= s[i];
    graph.set_input(node, 2, graph.add_constant(bias->name, to_tensor(b)));
  }
  return {};
}

void add_to_bias(Graph& graph, Node* node, const std::vector<float>& t) {
  std::vector<float> b = t;
  std::string name = node->name + ".bias";
  if (const Value* bias = node->input(2)) {
    name = bias->name;
    for (size_t i = 0; i < b.size(); ++i) b[i] += bias->constant->elems<float>()[i];
  }
  graph.set_input(node, 2, graph.add_constant(name, to_tensor(b)));
}

// conv(x) * s, conv(x) + t, matmul(x, w) * s: the node after `node`, if it can join it.
Result<bool> fold_after(Graph& graph, Node* node) {
  Value* y = node->outputs[0];
  if (graph.use_count(y) != 1 || y->users.size() != 1) return false;
  Node* user = y->users[0];
  const bool product = is(user, "Mul"), matmul = is(node, "MatMul");
  if ((!product && !is(user, "Add")) || (!product && matmul)) return false;
  if (user->inputs[0] == user->inputs[1]) return false;
  const Value* other = user->inputs[0] == y ? user->inputs[1] : user->inputs[0];
  if (matmul && node->inputs[1]->rank() != 2) return false;
  const size_t axis = matmul ? y->shape().size() - 1 : 1;
  const auto values = along_axis(other, y->shape(), axis);
  if (!values) return false;
  if (product)
    FETTLE_TRY_VOID(scale_outputs(graph, node, *values));
  else
    add_to_bias(graph, node, *values);
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

// conv(x * s), and without padding conv(x + t): the node before a Conv, if nothing else uses it.
Result<bool> fold_before(Graph& graph, Node* conv) {
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
    FETTLE_TRY(ConstantTensor data, scaled(w, of_input));
    graph.set_input(conv, 1, graph.add_constant(conv->inputs[1]->name, std::move(data)));
  } else {
    const auto elems = w.elems<float>();
    const size_t taps = elems.size() / static_cast<size_t>(w.shape[0] * n_inner);
    std::vector<float> bias(static_cast<size_t>(w.shape[0]));
    for (int64_t oc = 0; oc < w.shape[0]; ++oc) {
      double sum = 0;
      for (int64_t ic = 0; ic < n_inner; ++ic)
        for (size_t k = 0; k < taps; ++k)
          sum += static_cast<double>(elems[static_cast<size_t>(oc * n_inner + ic) * taps + k]) * of_input(oc, ic);
      bias[static_cast<size_t>(oc)] = static_cast<float>(sum);
    }
    add_to_bias(graph, conv, bias);
  }
  graph.set_input(conv, 0, found->second);
  merge_provenance(conv, before);
  graph.erase(before);
  return true;
}

}  // namespace

Result<> fold_affine(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    const bool conv = is(node, "Conv");
    if ((!conv && !is(node, "ConvTranspose") && !is(node, "MatMul")) || !has_constant_weights(node)) continue;
    for (bool folded = true; folded;) {
      FETTLE_TRY(folded, fold_after(graph, node));
    }
    for (bool folded = conv; folded;) {
      FETTLE_TRY(folded, fold_before(graph, node));
    }
  }
  return {};
}

Result<> lower_batch_norm(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (!is(node, "BatchNormalization") || node->outputs[0]->dtype() != kF32) continue;
    const auto is_known = [](const Value* v) { return v->is_constant() && v->constant->dtype == kF32; };
    if (!std::all_of(node->inputs.begin() + 1, node->inputs.end(), is_known)) continue;
    const auto list = [&](size_t i) { return node->inputs[i]->constant->elems<float>(); };
    const double epsilon = node->attrs.get_float("epsilon", 1e-5);
    std::vector<float> factor, offset;
    for (size_t c = 0; c < list(1).size(); ++c) {
      const double s = list(1)[c] / std::sqrt(static_cast<double>(list(4)[c]) + epsilon);
      factor.push_back(static_cast<float>(s));
      offset.push_back(static_cast<float>(list(2)[c] - list(3)[c] * s));
    }
    // One element a channel, aligned with dim 1.
    std::vector<int64_t> shape(static_cast<size_t>(node->inputs[0]->rank() - 1), 1);
    shape[0] = static_cast<int64_t>(factor.size());
    Value* s = graph.add_constant(node->name + ".factor", reshaped(to_tensor(factor), shape));
    Value* t = graph.add_constant(node->name + ".offset", reshaped(to_tensor(offset), shape));
    Node* product = insert(graph, node, "Mul", {node->inputs[0], s});
    if (product) replace_with(graph, node, "Add", {product->outputs[0], t});
  }
  return {};
}

}  // namespace fettle::passes
