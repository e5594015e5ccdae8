#include <algorithm>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

/// With as many output channels as this, they fill vectors by themselves.
constexpr int64_t kFewChannels = 8;

/// The side of the square windows, where they lie side by side and each covers a block of the output; else 0.
int64_t block_side(const Node* node) {
  if (!is(node, "ConvTranspose") || node->output()->rank() != 4) return 0;
  const Value *x = node->input(0), *w = node->input(1), *y = node->output();
  if (!w->is_constant() || (node->input(2) && !node->input(2)->is_constant())) return 0;
  const int64_t side = w->extent(2);
  if (side < 2 || w->extent(3) != side || node->attrs.get_int("group", 1) != 1) return 0;
  for (size_t d = 0; d < 2; ++d) {
    if (node->attrs.get_ints("strides", {1, 1})[d] != side || node->attrs.get_ints("dilations", {1, 1})[d] != 1)
      return 0;
    if (!(y->shape()[d + 2] == x->shape()[d + 2] * side)) return 0;
  }
  for (const char* name : {"pads", "output_padding", "output_shape"})
    for (int64_t value : node->attrs.get_ints(name, {}))
      if (value != 0) return 0;
  return node->attrs.get_string("auto_pad", "NOTSET") == "NOTSET" ? side : 0;
}

/// What its output lacks in each spatial dim to be a multiple of the stride; empty where it lacks nothing, does not
/// fall into phases, or lacks more or less by its sizes.
std::vector<int64_t> missing_of_phases(const Node* node) {
  if (!is(node, "ConvTranspose")) return {};
  if (node->attrs.get_string("auto_pad", "NOTSET") != "NOTSET" || node->attrs.has("output_shape")) return {};
  for (int64_t dilation : node->attrs.get_ints("dilations", {}))
    if (dilation != 1) return {};
  const std::vector<int64_t> strides = node->attrs.get_ints("strides", {});
  std::vector<int64_t> missing;
  for (size_t d = 0; d < strides.size(); ++d) {
    const Dim& extent = node->output()->shape()[d + 2];
    const Dim lacks = ceildiv(extent, strides[d]) * strides[d] - extent;
    if (!lacks.is_number()) return {};
    missing.push_back(lacks.value());
  }
  return std::ranges::any_of(missing, [](int64_t n) { return n > 0; }) ? missing : std::vector<int64_t>();
}

// Where the phases are loops of their own, all have as many pixels: what there is too much is left out after what is
// done with each pixel by itself.
//   convtranspose(x, w) {3x3, strides 2} → [55, 55]   →   slice(convtranspose(x, w) {output_padding 1})
void complete_phases(Graph& graph, Node* node) {
  const std::vector<int64_t> missing = missing_of_phases(node);
  if (missing.empty()) return;
  Attrs attrs = node->attrs;
  std::vector<int64_t> padding = attrs.get_ints("output_padding", std::vector<int64_t>(missing.size(), 0));
  std::vector<int64_t> axes, starts;
  std::vector<Dim> ends;
  for (size_t d = 0; d < missing.size(); ++d) {
    padding[d] += missing[d];
    axes.push_back(static_cast<int64_t>(d) + 2);
    starts.push_back(0);
    ends.push_back(node->output()->shape()[d + 2]);
  }
  attrs.set("output_padding", padding);
  Attrs slice{{"axes", axes}, {"starts", starts}, {"ends", dims_attr(std::move(ends))}};
  Node* last = node;
  Node* made = insert(graph, node, "ConvTranspose", node->inputs, std::move(attrs));
  if (!made) return;
  merge_provenance(made, node);
  for (Node* next = only_user(graph, last->output()); is_pointwise(next) && next->inputs.size() == 1;
       next = only_user(graph, last->output())) {
    Node* again = insert(graph, node, next->op->name, {made->output()}, next->attrs);
    if (!again) break;
    merge_provenance(again, next);
    made = again;
    last = next;
  }
  replace_with(graph, last, "Slice", {made->output()}, std::move(slice));
}

}  // namespace

Result<> lower_conv_transpose(Graph& graph, const PassContext&) {
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    const int64_t side = block_side(node);
    if (side == 0 || node->input(1)->extent(1) >= kFewChannels) {
      complete_phases(graph, node);
      continue;
    }
    const ConstantTensor& w = *node->input(1)->constant;  // [in, out, side, side] → [out * side * side, in, 1, 1]
    const int64_t in = w.shape[0], columns = w.shape[1] * side * side;
    const auto from = to_doubles(w);
    std::vector<double> transposed(from.size());
    for (int64_t i = 0; i < in; ++i)
      for (int64_t c = 0; c < columns; ++c)
        transposed[static_cast<size_t>(c * in + i)] = from[static_cast<size_t>(i * columns + c)];
    FETTLE_TRY(ConstantTensor weights, to_tensor(transposed, w.dtype, {columns, in, 1, 1}));
    std::vector<Value*> inputs = {node->input(0), graph.add_constant(node->input(1)->name, std::move(weights))};
    if (const Value* bias = node->input(2)) {
      std::vector<double> repeated;
      for (int64_t c = 0; c < columns; ++c) repeated.push_back(bias->constant->at(c / (side * side)));
      FETTLE_TRY(ConstantTensor biases, to_tensor(repeated, bias->dtype(), {columns}));
      inputs.push_back(graph.add_constant(bias->name, std::move(biases)));
    }
    Node* product = insert(graph, node, "Conv", std::move(inputs));
    if (!product) continue;
    Node* spread = replace_with(graph, node, "DepthToSpace", {product->output()},
                                {{"blocksize", side}, {"mode", std::string("CRD")}});
    if (!spread) {
      graph.erase(product);
      continue;
    }
    merge_provenance(product, spread);
  }
  return {};
}

}  // namespace fettle::passes
