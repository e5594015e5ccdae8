#include "quantize/selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "frontend/onnx/importer.h"
#include "quantize/model_index.h"

namespace fettle::quantize {
namespace {

using onnx::NodeProto;
using onnx::TensorProto;
using onnx_reader::node_label;
using onnx_reader::op_label;

enum class Role : uint8_t { kOther, kProduct, kMove, kClip, kAverage };

struct RoleOf {
  std::string_view op;
  Role role;
};
constexpr RoleOf kRoles[] = {
    {"Conv", Role::kProduct},
    {"ConvTranspose", Role::kProduct},
    {"Gemm", Role::kProduct},
    {"MatMul", Role::kProduct},
    {"Concat", Role::kMove},
    {"DepthToSpace", Role::kMove},
    {"Expand", Role::kMove},
    {"Flatten", Role::kMove},
    {"Gather", Role::kMove},
    {"Identity", Role::kMove},
    {"MaxPool", Role::kMove},
    {"Reshape", Role::kMove},
    {"Slice", Role::kMove},
    {"SpaceToDepth", Role::kMove},
    {"Squeeze", Role::kMove},
    {"Tile", Role::kMove},
    {"Transpose", Role::kMove},
    {"Unsqueeze", Role::kMove},
    {"Relu", Role::kClip},
    {"Clip", Role::kClip},
    {"Add", Role::kAverage},
    {"AveragePool", Role::kAverage},
    {"GlobalAveragePool", Role::kAverage},
};

Role role_of(const NodeProto& node) {
  if (!onnx_reader::is_standard_domain(node.domain()) || node.output_size() != 1) return Role::kOther;
  const auto* found = std::ranges::find(kRoles, std::string_view(node.op_type()), &RoleOf::op);
  return found == std::end(kRoles) ? Role::kOther : found->role;
}

/// Inputs that hold elements of the result, or of its sums; others are shapes and indices.
int n_data_inputs(const NodeProto& node) {
  return node.op_type() == "Concat" ? node.input_size() : node.op_type() == "Add" ? 2 : 1;
}

bool has_product(const onnx::GraphProto& graph) {
  return std::ranges::any_of(graph.node(), [](const NodeProto& node) {
    return role_of(node) == Role::kProduct ||
           std::ranges::any_of(node.attribute(), [](const auto& a) { return a.has_g() && has_product(a.g()); });
  });
}

/// The axis of the output channels of a product's constant operand.
int channel_axis(const NodeProto& node, int input, int rank) {
  if (node.op_type() == "Conv") return 0;
  // The channels of a group stand one after the other, and those of several groups share an index.
  if (node.op_type() == "ConvTranspose") return int_attribute(node, "group", 1) == 1 ? 1 : -1;
  if (node.op_type() == "Gemm") {
    const bool is_transposed = int_attribute(node, input == 0 ? "transA" : "transB", 0) != 0;
    return input == 0 ? (is_transposed ? 1 : 0) : (is_transposed ? 0 : 1);
  }
  return rank < 2 ? -1 : input == 0 ? rank - 2 : rank - 1;
}

class Selector {
 public:
  Selector(const ModelIndex& index, const std::function<bool(const NodeProto&)>& excluded, const Refusal& refusal)
      : index_(index), excluded_(excluded), refusal_(refusal) {}

  Selection run() {
    for (int i = 0; i < index_.graph().node_size(); ++i) {
      const NodeProto& node = index_.node(i);
      if (role_of(node) == Role::kProduct)
        take_product(i, node);
      else if (std::ranges::any_of(node.attribute(), [](const auto& a) { return a.has_g() && has_product(a.g()); }))
        leave(node, "its bodies stay float");
    }
    while (!left_.empty()) {
      const std::string value = left_.back();
      left_.pop_back();
      look_behind(value);
    }
    for (auto& [value, group] : made_.groups) group = root(group);
    return std::move(made_);
  }

 private:
  void leave(const NodeProto& node, std::string reason) {
    made_.left.push_back({op_label(node), node_label(node), std::move(reason)});
  }

  int root(int group) const {
    while (parents_[static_cast<size_t>(group)] != group) group = parents_[static_cast<size_t>(group)];
    return group;
  }

  int need(const std::string& value) {
    const auto [place, is_new] = made_.groups.emplace(value, static_cast<int>(parents_.size()));
    if (is_new) {
      parents_.push_back(place->second);
      left_.push_back(value);
    }
    return place->second;
  }

  /// Why the product cannot read the operand as bytes; nothing: it can.
  std::optional<std::string> refuse_operand(const NodeProto& node, int i) const {
    const std::string& operand = node.input(i);
    if (!index_.is_constant(operand)) {
      const std::string reason = refusal_(operand);
      return reason.empty() ? std::nullopt : std::optional(reason);
    }
    const TensorProto* weights = index_.constant(operand);
    if (!weights) {
      const int maker = index_.producer(operand);
      if (maker >= 0 && index_.node(maker).op_type() == "DequantizeLinear")
        return fmt::format("its weights \"{}\" are quantised already", operand);
      return fmt::format("other nodes compute its weights \"{}\"", operand);
    }
    if (weights->data_type() != TensorProto::FLOAT)
      return fmt::format("its weights are {}", onnx_reader::data_type_name(weights->data_type()));
    if (std::ranges::count(weights->dims(), 0) > 0) return "its weights are empty";
    const std::string reason = refusal_(operand);
    return reason.empty() ? std::nullopt : std::optional(reason);
  }

  void take_product(int i, const NodeProto& node) {
    if (excluded_(node)) return leave(node, "it is excluded");
    if (node.input_size() < 2) return leave(node, "it has no two operands");
    if (index_.is_constant(node.input(0)) && index_.is_constant(node.input(1)))
      return leave(node, "both operands are constants");
    for (const int operand : {0, 1})
      if (auto reason = refuse_operand(node, operand)) return leave(node, std::move(*reason));
    ++made_.n_products;
    for (const int operand : {0, 1}) {
      if (index_.is_constant(node.input(operand))) {
        made_.weights.push_back(weight_use(i, node, operand));
      } else {
        need(node.input(operand));
        made_.reads[i].insert(operand);
      }
    }
  }

  WeightUse weight_use(int i, const NodeProto& node, int input) const {
    const TensorProto& weights = *index_.constant(node.input(input));
    WeightUse use{.node = i, .input = input, .operand = 1 - input};
    use.axis = channel_axis(node, input, weights.dims_size());
    if (use.axis >= weights.dims_size()) use.axis = -1;
    if (node.op_type() == "MatMul" || input != 1 || use.axis < 0 || node.input_size() < 3 || node.input(2).empty())
      return use;
    const bool is_scaled = float_attribute(node, "alpha", 1) != 1 || float_attribute(node, "beta", 1) != 1;
    const TensorProto* bias = index_.constant(node.input(2));
    if (!is_scaled && bias && bias->data_type() == TensorProto::FLOAT && bias->dims_size() == 1 &&
        bias->dims(0) == weights.dims(use.axis) && refusal_(node.input(2)).empty())
      use.bias = 2;
    return use;
  }

  /// Whether what the node makes of bytes may be bytes, all its elements.
  bool may_read_bytes(const NodeProto& node) const {
    if (excluded_(node) || index_.is_read_by_name(node.output(0))) return false;
    for (int i = 0; i < n_data_inputs(node); ++i)
      if (i >= node.input_size() || index_.is_constant(node.input(i)) || !refusal_(node.input(i)).empty()) return false;
    return true;
  }

  /// Whether a sum may take it as bytes: products and what hands bytes on make it, perhaps clipped.
  bool is_made_near_bytes(std::string value) const {
    while (!made_.groups.contains(value)) {
      const int producer = index_.producer(value);
      if (producer < 0) return false;
      const NodeProto& node = index_.node(producer);
      const Role role = role_of(node);
      if (role != Role::kClip) return role != Role::kOther && !excluded_(node);
      value = node.input(0);
    }
    return true;
  }

  void look_behind(const std::string& value) {
    const int producer = index_.producer(value);
    if (producer < 0) return;
    const NodeProto& node = index_.node(producer);
    Role role = role_of(node);
    if (role == Role::kClip) {
      // Behind arithmetic it is part of it, and what it clips needs no bytes of its own.
      const int before = node.input_size() > 0 ? index_.producer(node.input(0)) : -1;
      if (before >= 0 && role_of(index_.node(before)) == Role::kMove) role = Role::kMove;
    }
    if ((role != Role::kMove && role != Role::kAverage) || !may_read_bytes(node)) return;
    if (role == Role::kAverage)
      for (int i = 0; i < n_data_inputs(node); ++i)
        if (!is_made_near_bytes(node.input(i))) return;
    for (int i = 0; i < n_data_inputs(node); ++i) {
      const int group = need(node.input(i));
      made_.reads[producer].insert(i);
      if (role == Role::kMove) parents_[static_cast<size_t>(root(group))] = root(made_.groups.at(value));
    }
  }

  const ModelIndex& index_;
  const std::function<bool(const NodeProto&)>& excluded_;
  const Refusal& refusal_;
  Selection made_;
  std::vector<int> parents_;       // of groups: those that have become one
  std::vector<std::string> left_;  // values behind which to look
};

}  // namespace

Selection select(const ModelIndex& index, const std::function<bool(const NodeProto&)>& excluded,
                 const Refusal& refusal) {
  return Selector(index, excluded, refusal).run();
}

}  // namespace fettle::quantize
