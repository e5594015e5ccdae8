#include "quantize/rewriting.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <tuple>

namespace fettle::quantize {
namespace {

using onnx::GraphProto;
using onnx::ModelProto;
using onnx::NodeProto;
using onnx::TensorProto;

/// The first version of the format whose initializers need not be inputs.
constexpr int64_t kFreeInitializers = 4;

template <class T>
TensorProto tensor_of(const std::string& name, int32_t type, std::span<const T> elements,
                      std::span<const int64_t> shape) {
  TensorProto made;
  made.set_name(name);
  made.set_data_type(type);
  for (const int64_t extent : shape) made.add_dims(extent);
  made.set_raw_data(elements.data(), elements.size_bytes());
  return made;
}

class Rewriter {
 public:
  Rewriter(const ModelIndex& index, const Selection& selection, const std::map<int, Affine>& parameters,
           ByteType activations, bool per_channel)
      : index_(index),
        selection_(selection),
        parameters_(parameters),
        activation_type_(activations),
        per_channel_(per_channel),
        model_(std::make_shared<ModelProto>(index.model())) {}

  Result<RewrittenModel> run(const OnnxModel& model) {
    FETTLE_TRY_VOID(quantize_weights_and_biases());
    GraphProto& graph = *model_->mutable_graph();
    google::protobuf::RepeatedPtrField<NodeProto> nodes;
    graph.mutable_node()->Swap(&nodes);
    for (NodeProto& node : first_) graph.add_node()->Swap(&node);
    for (const auto& input : index_.graph().input()) add_pair(input.name());
    for (int i = 0; i < nodes.size(); ++i) {
      redirect(i, nodes[i]);
      NodeProto& kept = *graph.add_node();
      kept.Swap(&nodes[i]);
      for (int k = 0; k < kept.output_size(); ++k) add_pair(kept.output(k));
    }
    drop_what_is_not_read();
    model_->set_ir_version(std::max(model_->ir_version(), kFreeInitializers));
    made_.model = {model_, model.data, model.label};
    return std::move(made_);
  }

 private:
  using WeightKey = std::pair<std::string, int>;  // its name, the axis
  struct Weights {
    LeastScales least;
    std::vector<float> scales;
    std::string dequantized;
  };

  std::string unique(const std::string& name) {
    std::string made = name;
    for (int i = 1; index_.is_name(made) || !names_.insert(made).second; ++i) made = name + "." + std::to_string(i);
    return made;
  }

  int axis_of(const WeightUse& use) const { return per_channel_ ? use.axis : -1; }

  WeightKey key_of(const WeightUse& use) const { return {index_.node(use.node).input(use.input), axis_of(use)}; }

  /// Of the activation that a product reads.
  const Affine& affine_of_operand(const WeightUse& use) const {
    return parameters_.at(selection_.groups.at(index_.node(use.node).input(use.operand)));
  }

  template <class T>
  std::string add_initializer(const std::string& name, int32_t type, std::span<const T> elements,
                              std::span<const int64_t> shape) {
    const std::string made = unique(name);
    *model_->mutable_graph()->add_initializer() = tensor_of(made, type, elements, shape);
    return made;
  }

  /// DequantizeLinear; axis: -1 for one scale.
  NodeProto dequantize(const std::string& label, const std::string& numbers, const std::string& scale,
                       const std::string& zero_point, int axis) {
    NodeProto node;
    node.set_op_type("DequantizeLinear");
    node.set_name(unique(label + "_DequantizeLinear"));
    node.add_input(numbers);
    node.add_input(scale);
    node.add_input(zero_point);
    node.add_output(unique(label + "_dequantized"));
    if (axis >= 0) {
      auto* attribute = node.add_attribute();
      attribute->set_name("axis");
      attribute->set_type(onnx::AttributeProto::INT);
      attribute->set_i(axis);
    }
    return node;
  }

  Result<ConstantTensor> content(const std::string& name) const { return index_.content(*index_.constant(name)); }

  Result<> quantize_weights_and_biases() {
    for (const WeightUse& use : selection_.weights) {
      Weights& weights = weights_[key_of(use)];
      if (use.bias < 0) continue;
      FETTLE_TRY(const ConstantTensor bias, content(index_.node(use.node).input(use.bias)));
      const auto elements = bias.elems<float>();
      weights.least.resize(axis_of(use) < 0 ? 1 : elements.size());
      for (size_t i = 0; i < elements.size(); ++i) {
        float& least = weights.least[axis_of(use) < 0 ? 0 : i];
        least = std::max(least, least_scale(elements[i], affine_of_operand(use).scale));
      }
    }
    for (auto& [key, weights] : weights_) FETTLE_TRY_VOID(add_weights(key.first, key.second, weights));
    for (const WeightUse& use : selection_.weights) {
      const Weights& weights = weights_.at(key_of(use));
      redirected_[{use.node, use.input}] = weights.dequantized;
      if (use.bias >= 0) FETTLE_TRY_VOID(add_bias(use, weights));
    }
    return {};
  }

  Result<> add_weights(const std::string& name, int axis, Weights& weights) {
    FETTLE_TRY(const ConstantTensor tensor, content(name));
    QuantizedWeights made = quantize_weights(tensor.elems<float>(), tensor.shape, axis, weights.least);
    weights.scales = std::move(made.scales);
    const std::vector<int8_t> zeros(axis < 0 ? 1 : weights.scales.size());
    const std::vector<int64_t> shape = scale_shape(axis, std::ssize(weights.scales));
    const std::string numbers =
        add_initializer<int8_t>(name + "_quantized", TensorProto::INT8, made.numbers, tensor.shape);
    const std::string scale = add_initializer<float>(name + "_scale", TensorProto::FLOAT, weights.scales, shape);
    const std::string zero = add_initializer<int8_t>(name + "_zero_point", TensorProto::INT8, zeros, shape);
    first_.push_back(dequantize(name, numbers, scale, zero, axis));
    weights.dequantized = first_.back().output(0);
    return {};
  }

  static std::vector<int64_t> scale_shape(int axis, int64_t channels) {
    return axis < 0 ? std::vector<int64_t>{} : std::vector<int64_t>{channels};
  }

  Result<> add_bias(const WeightUse& use, const Weights& weights) {
    const std::string& name = index_.node(use.node).input(use.bias);
    const float input_scale = affine_of_operand(use).scale;
    std::string& known = biases_[{name, weights.dequantized, input_scale}];
    if (known.empty()) {
      FETTLE_TRY(const ConstantTensor bias, content(name));
      std::vector<float> scales = weights.scales;
      for (float& scale : scales) scale *= input_scale;
      const std::vector<int32_t> numbers = quantize_bias(bias.elems<float>(), scales);
      const int axis = axis_of(use) < 0 ? -1 : 0;
      const std::vector<int64_t> shape = scale_shape(axis, std::ssize(scales));
      const std::vector<int32_t> zeros(scales.size());
      const std::string stored = add_initializer<int32_t>(name + "_quantized", TensorProto::INT32, numbers, bias.shape);
      const std::string scale = add_initializer<float>(name + "_scale", TensorProto::FLOAT, scales, shape);
      const std::string zero = add_initializer<int32_t>(name + "_zero_point", TensorProto::INT32, zeros, shape);
      first_.push_back(dequantize(name, stored, scale, zero, axis));
      known = first_.back().output(0);
    }
    redirected_[{use.node, use.bias}] = known;
    return {};
  }

  /// Scale and zero point of a group of values, which have them in common.
  const std::pair<std::string, std::string>& parameters_of(int group, const std::string& value) {
    auto& known = stored_[group];
    if (!known.first.empty()) return known;
    const Affine& affine = parameters_.at(group);
    known.first = add_initializer<float>(value + "_scale", TensorProto::FLOAT, std::span(&affine.scale, 1), {});
    const auto zero = static_cast<uint8_t>(affine.zero_point);  // the bits of an s8, too
    const int32_t type = activation_type_ == ByteType::kU8 ? TensorProto::UINT8 : TensorProto::INT8;
    known.second = add_initializer<uint8_t>(value + "_zero_point", type, std::span(&zero, 1), {});
    return known;
  }

  void add_pair(const std::string& value) {
    const auto found = selection_.groups.find(value);
    if (found == selection_.groups.end()) return;
    const auto& [scale, zero] = parameters_of(found->second, value);
    GraphProto& graph = *model_->mutable_graph();
    NodeProto& node = *graph.add_node();
    node.set_op_type("QuantizeLinear");
    node.set_name(unique(value + "_QuantizeLinear"));
    node.add_input(value);
    node.add_input(scale);
    node.add_input(zero);
    node.add_output(unique(value + "_quantized"));
    const std::string numbers = node.output(0);
    NodeProto back = dequantize(value, numbers, scale, zero, -1);
    made_.dequantized[value] = back.output(0);
    graph.add_node()->Swap(&back);
  }

  void redirect(int i, NodeProto& node) const {
    for (int k = 0; k < node.input_size(); ++k)
      if (const auto found = redirected_.find({i, k}); found != redirected_.end()) node.set_input(k, found->second);
    if (const auto reads = selection_.reads.find(i); reads != selection_.reads.end())
      for (const int k : reads->second) node.set_input(k, made_.dequantized.at(node.input(k)));
  }

  /// Weights and biases of which only the bytes are read.
  void drop_what_is_not_read() {
    std::set<std::string, std::less<>> replaced, read;
    for (const auto& [place, name] : redirected_) replaced.insert(index_.node(place.first).input(place.second));
    GraphProto& graph = *model_->mutable_graph();
    for (const NodeProto& node : graph.node()) read.insert(node.input().begin(), node.input().end());
    const auto is_dropped = [&](const std::string& name) {
      return replaced.contains(name) && !read.contains(name) && !index_.is_read_by_name(name);
    };
    drop_if(*graph.mutable_initializer(), [&](const TensorProto& tensor) { return is_dropped(tensor.name()); });
    drop_if(*graph.mutable_input(), [&](const auto& input) { return is_dropped(input.name()); });
    drop_if(*graph.mutable_value_info(), [&](const auto& info) { return is_dropped(info.name()); });
    drop_if(*graph.mutable_node(), [&](const NodeProto& node) {
      return node.op_type() == "Constant" && node.output_size() == 1 && is_dropped(node.output(0));
    });
  }

  template <class Fields, class Test>
  static void drop_if(Fields& fields, const Test& test) {
    int kept = 0;
    for (int i = 0; i < fields.size(); ++i)
      if (!test(fields[i])) fields.SwapElements(i, kept++);
    fields.DeleteSubrange(kept, fields.size() - kept);
  }

  const ModelIndex& index_;
  const Selection& selection_;
  const std::map<int, Affine>& parameters_;
  ByteType activation_type_;
  bool per_channel_;
  std::shared_ptr<ModelProto> model_;
  std::set<std::string, std::less<>> names_;
  std::map<WeightKey, Weights> weights_;
  std::map<std::tuple<std::string, std::string, float>, std::string> biases_;
  std::map<std::pair<int, int>, std::string> redirected_;  // node, input → what it reads instead
  std::map<int, std::pair<std::string, std::string>> stored_;
  std::vector<NodeProto> first_;  // of constants, before all others
  RewrittenModel made_;
};

}  // namespace

Result<RewrittenModel> rewrite(const ModelIndex& index, const OnnxModel& model, const Selection& selection,
                               const std::map<int, Affine>& parameters, ByteType activations, bool per_channel) {
  return Rewriter(index, selection, parameters, activations, per_channel).run(model);
}

}  // namespace fettle::quantize
