#include <algorithm>
#include <cstdlib>
#include <functional>
#include <set>
#include <string>

#include "base/check.h"
#include "graph/late_sizes.h"
#include "graph/op.h"
#include "graph/passes/broadcasts.h"
#include "graph/passes/fold_node.h"
#include "graph/passes/passes.h"
#include "graph/view.h"

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

// Whether the outputs are elements of the one input, where they lie: they are copied, which takes no program.
bool renames_memory(const Node& node) {
  return node.op->view && node.inputs.size() == 1 && node.inputs[0]->is_constant() &&
         !node.inputs[0]->constant->dtype.is_string();
}

// to[row-major index of (i0, i1, …)] = from[Σ strides[d] * i_d]; no extent is 0. The innermost dim and the one whose
// elements are nearest to each other in `from` go by tiles, so that lines of the cache are used whole on both sides.
template <class T>
void copy_strided(const T* from, T* to, const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  constexpr int64_t kTile = 32;
  if (shape.empty()) return void(*to = *from);
  const size_t inner = shape.size() - 1;
  std::vector<int64_t> steps(shape.size(), 1);  // in `to`
  for (size_t d = inner; d-- > 0;) steps[d] = steps[d + 1] * shape[d + 1];
  size_t near = inner;
  for (size_t d = 0; d < inner; ++d)
    if (shape[d] > 1 && strides[d] != 0 && std::abs(strides[d]) < std::abs(strides[near])) near = d;
  const int64_t rows = near == inner ? 1 : shape[near], columns = shape[inner];
  std::vector<int64_t> at(inner, 0);
  for (;;) {
    for (int64_t r0 = 0; r0 < rows; r0 += kTile)
      for (int64_t c0 = 0; c0 < columns; c0 += kTile)
        for (int64_t r = r0; r < std::min(rows, r0 + kTile); ++r)
          for (int64_t c = c0; c < std::min(columns, c0 + kTile); ++c)
            to[r * steps[near] + c] = from[r * strides[near] + c * strides[inner]];
    size_t d = inner;
    for (; d > 0; --d) {
      const size_t k = d - 1;
      if (k == near) continue;
      from += strides[k], to += steps[k];
      if (++at[k] < shape[k]) break;
      from -= strides[k] * shape[k], to -= steps[k] * shape[k];
      at[k] = 0;
    }
    if (d == 0) return;
  }
}

// The elements of `tensor` that lie where the strides say, dense: the same bytes where those are all, in their order.
Result<ConstantTensor> strided(const ConstantTensor& tensor, std::vector<int64_t> shape, int64_t first,
                               const std::vector<int64_t>& strides) {
  int64_t n_elems = 1, lowest = first, highest = first;
  bool is_in_order = first == 0;
  for (size_t d = shape.size(); d-- > 0;) {
    is_in_order = is_in_order && (shape[d] == 1 || strides[d] == n_elems);
    n_elems *= shape[d];
    if (shape[d] > 1) (strides[d] < 0 ? lowest : highest) += strides[d] * (shape[d] - 1);
  }
  if (is_in_order && n_elems == tensor.n_elems()) return reshaped(tensor, std::move(shape));
  FETTLE_CHECK(n_elems == 0 || (lowest >= 0 && highest < tensor.n_elems()));
  FETTLE_TRY(TensorBuilder made, make_tensor(tensor.dtype, shape));
  const auto copy = [&]<class T>(T) {
    copy_strided(reinterpret_cast<const T*>(tensor.bytes.get()) + first, made.elems<T>().data(), shape, strides);
  };
  if (n_elems > 0) {
    switch (tensor.dtype.element_bytes()) {
      case 1:
        copy(uint8_t{});
        break;
      case 2:
        copy(uint16_t{});
        break;
      case 4:
        copy(uint32_t{});
        break;
      case 8:
        copy(uint64_t{});
        break;
      default:
        FETTLE_UNREACHABLE();
    }
  }
  return std::move(made).finish();
}

// The outputs of a node that renames memory, or nothing where its rule does not find them.
Result<std::optional<std::vector<ConstantTensor>>> renamed(const Node& node) {
  const Value* input = node.inputs[0];
  const auto views = view_outputs(node, {0, 0, dense_strides(input->shape())});
  if (!views) return std::nullopt;
  std::vector<ConstantTensor> made;
  for (size_t i = 0; i < views->size(); ++i) {
    const View& view = (*views)[i];
    const Value* output = node.outputs[i];
    if (!view.offset_elems.is_number() || output->dtype() != input->dtype()) return std::nullopt;
    std::vector<int64_t> strides;
    for (size_t d = 0; d < view.strides.size(); ++d) {
      if (!view.strides[d].is_number()) return std::nullopt;
      strides.push_back(output->extents()[d] > 1 ? view.strides[d].value() : 0);
    }
    FETTLE_TRY(ConstantTensor tensor, strided(*input->constant, output->extents(), view.offset_elems.value(), strides));
    made.push_back(std::move(tensor));
  }
  return made;
}

Result<std::vector<ConstantTensor>> computed(const Node& node, const PassContext& context) {
  if (renames_memory(node)) {
    FETTLE_TRY(auto made, renamed(node));
    if (made) return std::move(*made);
  }
  std::vector<ConstantTensor> inputs;
  for (const Value* input : node.inputs)
    if (input) inputs.push_back(*input->constant);
  return evaluate_node(node, inputs, context.run);
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
  auto results = computed(*node, context);
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
  int64_t grown_bytes = 0, moved_elems = 0;
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (node->erased || !can_fold(*node, context.limits.folded_bytes) || is_repeated_for_elements(graph, *node))
      continue;
    const int64_t more = bytes_of(node->outputs) - bytes_of(node->inputs);
    if (more > 0 && grown_bytes + more > context.limits.folded_total_bytes) continue;
    if (renames_memory(*node)) {
      moved_elems += bytes_of(node->outputs) / std::max(1, node->inputs[0]->dtype().element_bytes());
      if (moved_elems > context.limits.folded_steps) continue;
    }
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
