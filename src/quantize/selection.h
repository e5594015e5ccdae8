#pragma once
// Which values of a model become bytes, and which nodes read them.

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace onnx {
class NodeProto;
}

namespace fettle::quantize {

class ModelIndex;

/// A constant operand of a product.
struct WeightUse {
  int node = -1, input = 0;
  int axis = -1;    // of its output channels; -1: it has none
  int bias = -1;    // the input that is the product's bias, a constant with one element for each channel; -1: none such
  int operand = 0;  // the input that is an activation
};

/// A node that stays as it is.
struct LeftNode {
  std::string op, name, reason;
};

struct Selection {
  /// Values that become bytes; of those with one number, all have one scale.
  std::map<std::string, int> groups;
  /// Which inputs of a node read such values.
  std::map<int, std::set<int>> reads;
  std::vector<WeightUse> weights;
  std::vector<LeftNode> left;  // products; and nodes whose bodies have some
  int n_products = 0;          // that compute with bytes
};

/// Why a value stays float; empty: it may become bytes.
using Refusal = std::function<std::string(const std::string& value)>;

/// Products (Conv, ConvTranspose, Gemm, MatMul) read bytes. From what they read the search goes backwards: nodes that
/// only move elements, or clip what was moved, hand bytes on under one scale; sums and averages of what others make of
/// bytes read bytes, too. All else stays float, and reads floats.
/// excluded: whether the user wants the node to stay as it is.
Selection select(const ModelIndex& index, const std::function<bool(const onnx::NodeProto&)>& excluded,
                 const Refusal& refusal);

}  // namespace fettle::quantize
