// Products with constant weights in blocks of few bits keep these as bytes.

#include <fmt/format.h>

#include "graph/op_util.h"
#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "graph/small_types.h"

namespace fettle::passes {
namespace {

constexpr int64_t kLeastBlock = 8;  // of shorter ones scales would take as much memory as floats

// The weights of a product as a matrix [N, K]: what makes them, and whether that makes [K, N].
struct Weights {
  Node* node = nullptr;
  bool is_swapped = false;
};
Weights weights_of(const Value* value, std::string_view op) {
  if (Node* node = made_by(value, op)) return {node, true};
  const Node* transpose = made_by(value, "Transpose");
  if (!transpose || permutation(transpose) != std::vector<int64_t>{1, 0}) return {};
  return {made_by(transpose->inputs[0], op), false};
}

// matmul(x, transpose(unpackblocks(w))) → blockedmatmul(x, w)
bool keep_packed(Graph& graph, Node* node) {
  const Weights w = weights_of(node->inputs[1], "UnpackBlocks");
  if (!w.node || w.is_swapped || !w.node->inputs[0]->is_constant()) return false;
  if (w.node->attrs.get_int("block_size", 0) < kLeastBlock) return false;
  std::vector<Value*> inputs = w.node->inputs;
  inputs.insert(inputs.begin(), node->inputs[0]);
  Attrs attrs = w.node->attrs;
  std::erase_if(attrs.entries, [](const auto& entry) { return entry.first == "k"; });
  return replace_with(graph, node, "BlockedMatMul", std::move(inputs), std::move(attrs));
}

// Bytes of [n][k], or of [k][n], as blocks of packed numbers: [n][block][byte]. What is beyond k is `filling`.
struct Matrix {
  const ConstantTensor& tensor;
  int64_t n, k;
  bool is_swapped;
  int at(int64_t i, int64_t j) const {
    const int64_t index = is_swapped ? j * n + i : i * k + j;
    return tensor.dtype.code == TypeCode::kInt ? reinterpret_cast<const int8_t*>(tensor.bytes.get())[index]
                                               : reinterpret_cast<const uint8_t*>(tensor.bytes.get())[index];
  }
};
Result<ConstantTensor> packed(const Matrix& m, int64_t block, int offset) {
  const int64_t bits = m.tensor.dtype.bits, per_byte = 8 / bits, blocks = (m.k + block - 1) / block;
  FETTLE_TRY(TensorBuilder made, make_tensor(kU8, {m.n, blocks, block / per_byte}));
  const std::span<uint8_t> bytes = made.elems<uint8_t>();
  constexpr int64_t kTile = 64;  // rows whose bytes are written together, so that lines are read whole
  for (int64_t first = 0; first < m.n; first += kTile)
    for (int64_t j = 0; j < m.k; ++j)
      for (int64_t i = first; i < std::min(m.n, first + kTile); ++i)
        bytes[static_cast<size_t>(i * blocks * (block / per_byte) + j / per_byte)] |=
            static_cast<uint8_t>((m.at(i, j) + offset) << (j % per_byte * bits));
  return std::move(made).finish();
}

// matmul(x, dequantizelinear(w, scales, zero points) {block_size}) → blockedmatmul(x, w')
bool pack(Graph& graph, Node* node) {
  const Weights w = weights_of(node->inputs[1], "DequantizeLinear");
  if (!w.node || !w.node->inputs[0]->is_constant() || w.node->inputs[0]->rank() != 2) return false;
  const ConstantTensor& tensor = *w.node->inputs[0]->constant;
  const DType type = tensor.dtype;
  const int64_t block = w.node->attrs.get_int("block_size", 0), axis = w.node->attrs.get_int("axis", 1);
  if (!type.is_int() || type.bits > 8 || block < kLeastBlock || block % (8 / type.bits) != 0) return false;
  if ((axis + 2) % 2 != (w.is_swapped ? 0 : 1)) return false;  // blocks are not along what the sums go over
  const DType to = w.node->output()->dtype();
  if (w.node->inputs[1]->dtype() != to || node->inputs[0]->dtype() != to ||
      !node->inputs[0]->shape().back().is_number())
    return false;
  const int64_t rows = tensor.shape[0], columns = tensor.shape[1];
  const Matrix matrix{tensor, w.is_swapped ? columns : rows, w.is_swapped ? rows : columns, w.is_swapped};
  // Numbers are made unsigned, zero points as well.
  const int offset = type.code == TypeCode::kInt ? 1 << (type.bits - 1) : 0;
  Value* zeros = w.node->input(2);
  if (zeros && !zeros->is_constant()) return false;
  auto bytes = packed(matrix, block, offset);
  if (!bytes) return false;
  const auto as_rows = [&](Value* value) {
    return w.is_swapped ? insert(graph, node, "Transpose", {value}, {{"perm", std::vector<int64_t>{1, 0}}})->output()
                        : value;
  };
  std::vector<Value*> inputs = {node->inputs[0], graph.add_constant(node->name + ".packed", std::move(*bytes)),
                                as_rows(w.node->inputs[1])};
  if (zeros) {
    std::vector<double> numbers = to_doubles(*zeros->constant);
    for (double& number : numbers) number += offset;
    auto unsigned_zeros = to_tensor(numbers, kU8, zeros->constant->shape);
    if (!unsigned_zeros) return false;
    inputs.push_back(as_rows(graph.add_constant(node->name + ".zeros", std::move(*unsigned_zeros))));
  }
  return replace_with(graph, node, "BlockedMatMul", std::move(inputs),
                      {{"bits", int64_t{type.bits}}, {"block_size", block}, {"zero", int64_t{offset}}});
}

}  // namespace

Result<> pack_weights(Graph& graph, const PassContext&) {
  for (Node* node : std::vector(graph.nodes().begin(), graph.nodes().end()))
    if (is(node, "MatMul") && node->inputs[1]->rank() == 2) keep_packed(graph, node) || pack(graph, node);
  return drop_dead(graph, {});
}

}  // namespace fettle::passes
