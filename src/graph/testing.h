#pragma once
// For tests: typed graphs, node by node.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "graph/op.h"

namespace fettle {

/// Builds typed graphs node by node.
class GraphMaker {
 public:
  Value* input(const std::string& name, std::vector<int64_t> shape) {
    return graph.add_input(name, {kF32, {shape.begin(), shape.end()}});
  }
  Value* constant(const std::string& name, std::vector<int64_t> shape, double value = 0.7312345) {
    Value* made = graph.add_constant(name, *filled(value, kF32, shape));
    made->type = TensorType{kF32, {shape.begin(), shape.end()}};
    return made;
  }
  /// Values in [-1, 1) / scale.
  Value* weights(const std::string& name, std::vector<int64_t> shape, double scale, uint64_t seed = 1) {
    TensorBuilder builder = *make_tensor(kF32, shape);
    RandomStream random{seed, graph.nodes().size()};
    for (float& x : builder.elems<float>()) x = static_cast<float>((2 * random.uniform() - 1) / scale);
    Value* made = graph.add_constant(name, std::move(builder).finish());
    made->type = TensorType{kF32, {shape.begin(), shape.end()}};
    return made;
  }
  Value* node(const std::string& op, std::vector<Value*> inputs, Attrs attrs = {}) {
    Node* made = graph.add_node(find_op(op), op, std::move(inputs), std::move(attrs));
    auto types = made->op->infer(*made);
    EXPECT_TRUE(types.has_value()) << (types ? "" : types.error().to_string());
    for (size_t i = 0; i < made->outputs.size(); ++i) made->outputs[i]->type = (*types)[i];
    return made->output();
  }
  Value* conv(Value* x, int64_t channels, int64_t kernel, int64_t groups = 1, int64_t stride = 1) {
    Attrs attrs;
    attrs.set("kernel_shape", std::vector<int64_t>{kernel, kernel});
    attrs.set("pads", std::vector<int64_t>(4, kernel / 2));
    attrs.set("strides", std::vector<int64_t>{stride, stride});
    attrs.set("group", groups);
    const int64_t per_group = x->extent(1) / groups;
    Value* w = weights("w", {channels, per_group, kernel, kernel}, static_cast<double>(per_group * kernel * kernel));
    return node("Conv", {x, w}, attrs);
  }
  Graph graph{"test"};
};

inline Attrs with_ints(const std::string& name, std::vector<int64_t> values) {
  Attrs attrs;
  attrs.set(name, std::move(values));
  return attrs;
}

}  // namespace fettle
