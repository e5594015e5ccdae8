// Models of which one node is wrong: attributes, inputs, outputs, types.

#include <array>

#include "hostile/models.h"

namespace fettle::hostile {
namespace {

using onnx::AttributeProto;
using onnx::ModelProto;
using onnx::TensorProto;

/// One node over x: f32[1, 2, 8, 8] and small initializers.
Kind node_kind(std::string name, std::function<void(onnx::GraphProto* graph, int variant)> add, int variants = 3) {
  return model_kind(
      std::move(name),
      [add = std::move(add)](ModelProto& m, int v) {
        auto* graph = m.mutable_graph();
        graph->clear_node();
        graph->clear_output();
        graph->clear_input();
        graph->clear_initializer();
        add_value(graph->add_input(), "x", {1, 2, 8, 8});
        add_value(graph->add_input(), "k", {2, 2, 3, 3});
        add(graph, v);
        graph->add_output()->set_name("y");
      },
      variants);
}

template <class T, size_t n>
T pick(const T (&list)[n], int v) {
  return list[static_cast<size_t>(v) % n];
}

onnx::NodeProto* conv(onnx::GraphProto* graph) { return add_node(graph, "Conv", {"x", "k"}, {"y"}); }

}  // namespace

std::vector<Kind> node_kinds() {
  return {
      node_kind("an attribute that is unknown",
                [](onnx::GraphProto* g, int v) { add_ints(conv(g), pick({"pad", "Strides", "weights"}, v), {1, 1}); }),
      node_kind("an attribute of another kind",
                [](onnx::GraphProto* g, int v) {
                  auto* a = add_int(conv(g), pick({"strides", "auto_pad", "group"}, v), 1);
                  if (v == 2) a->set_type(AttributeProto::FLOAT);
                }),
      node_kind("an attribute of no kind",
                [](onnx::GraphProto* g, int v) {
                  auto* a = add_int(conv(g), "group", 1);
                  if (v < 2) a->clear_type(), a->clear_i();  // its kind is that of what it holds
                  if (v == 0) a->set_f(1);
                  if (v == 2) a->set_type(AttributeProto::SPARSE_TENSOR);
                }),
      node_kind("an attribute twice",
                [](onnx::GraphProto* g, int v) {
                  auto* node = conv(g);
                  add_int(node, "group", 1);
                  add_int(node, v == 1 ? "" : "group", v);
                }),
      node_kind("a required attribute is missing",
                [](onnx::GraphProto* g, int v) { add_node(g, pick({"Cast", "Concat", "LRN"}, v), {"x"}, {"y"}); }),
      node_kind("too few inputs",
                [](onnx::GraphProto* g, int v) { add_node(g, pick({"Conv", "Add", "Where"}, v), {"x"}, {"y"}); }),
      node_kind("too many inputs",
                [](onnx::GraphProto* g, int v) {
                  add_node(g, pick({"Relu", "Add", "Gather"}, v), {"x", "x", "x", "x"}, {"y"});
                }),
      node_kind("a required input is missing",
                [](onnx::GraphProto* g, int v) {
                  add_node(g, "Conv",
                           v == 0   ? std::vector<std::string>{"", "k"}
                           : v == 1 ? std::vector<std::string>{"x", ""}
                                    : std::vector<std::string>{"x", "", "k"},
                           {"y"});
                }),
      node_kind("too many outputs", [](onnx::GraphProto* g,
                                       int v) { add_node(g, pick({"Relu", "Neg", "Softmax"}, v), {"x"}, {"y", "z"}); }),
      node_kind("no outputs",
                [](onnx::GraphProto* g, int v) { add_node(g, pick({"Relu", "Neg", "Softmax"}, v), {"x"}, {}); }),
      node_kind("an output twice",
                [](onnx::GraphProto* g, int v) {
                  auto* node = add_node(g, "Split", {"x"}, std::vector<std::string>(static_cast<size_t>(v + 2), "y"));
                  add_int(node, "num_outputs", v + 2);
                }),
      node_kind("an element type that it does not take",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "b", {2}, v == 2 ? TensorProto::INT32 : TensorProto::BOOL);
                  add_node(g, pick({"Sqrt", "Neg", "Sigmoid"}, v), {"b"}, {"y"});
                }),
      node_kind("inputs of two types",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "b", {8},
                            pick({TensorProto::DOUBLE, TensorProto::INT64, TensorProto::FLOAT16}, v));
                  add_node(g, pick({"Add", "MatMul", "Pow"}, v < 2 ? v : 0), {"x", "b"}, {"y"});
                }),
      node_kind(
          "strides and dilations that are none",
          [](onnx::GraphProto* g, int v) {
            add_ints(conv(g), v == 3 ? "dilations" : "strides",
                     pick({std::vector<int64_t>{0, 1}, {-1, 1}, {INT64_MAX, INT64_MIN}, {0, INT64_MAX}}, v));
          },
          4),
      node_kind(
          "pads that are none",
          [](onnx::GraphProto* g, int v) {
            add_ints(conv(g), "pads",
                     pick({std::vector<int64_t>{1},
                           {INT64_MAX, 0, INT64_MAX, 0},
                           {-9, -9, -9, -9},
                           {0, 0, int64_t{1} << 50, 0}},
                          v));
          },
          4),
      node_kind(
          "a kernel that does not fit",
          [](onnx::GraphProto* g, int v) {
            add_ints(conv(g), "kernel_shape", pick({std::vector<int64_t>{5, 5}, {3}, {0, 0}, {INT64_MAX, 3}}, v));
          },
          4),
      node_kind(
          "groups that do not fit",
          [](onnx::GraphProto* g, int v) {
            add_int(conv(g), "group", pick({int64_t{0}, int64_t{-2}, int64_t{3}, INT64_MAX}, v));
          },
          4),
      node_kind(
          "an axis beyond the rank",
          [](onnx::GraphProto* g, int v) {
            add_int(add_node(g, "Softmax", {"x"}, {"y"}), "axis",
                    pick({int64_t{4}, int64_t{-5}, INT64_MIN, INT64_MAX}, v));
          },
          4),
      node_kind(
          "a permutation that is none",
          [](onnx::GraphProto* g, int v) {
            add_ints(add_node(g, "Transpose", {"x"}, {"y"}), "perm",
                     pick({std::vector<int64_t>{0, 1, 2}, {0, 0, 1, 2}, {0, 1, 2, 4}, {-1, 0, 1, INT64_MIN}}, v));
          },
          4),
      node_kind(
          "a reshape that does not fit",
          [](onnx::GraphProto* g, int v) {
            add_ints_tensor(
                g, "s",
                pick({std::vector<int64_t>{-1, -1}, {5, -1}, {-2}, {INT64_MAX, INT64_MAX}, {0, 0, 0, 0, 0}}, v));
            add_node(g, "Reshape", {"x", "s"}, {"y"});
          },
          5),
      node_kind("parts that do not add up",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "s", pick({std::vector<int64_t>{4, 5}, {-4, 12}, {INT64_MAX, INT64_MAX}}, v));
                  add_int(add_node(g, "Split", {"x", "s"}, {"y", "z"}), "axis", 3);
                }),
      node_kind("no shape to expand to",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "s", pick({std::vector<int64_t>{3, 8}, {-9}, {INT64_MIN}}, v));
                  add_node(g, "Expand", {"x", "s"}, {"y"});
                }),
      node_kind("negative repeats",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "s", pick({std::vector<int64_t>{-1, 1, 1, 1}, {1, 1}, {INT64_MIN, 1, 1, 1}}, v));
                  add_node(g, "Tile", {"x", "s"}, {"y"});
                }),
      node_kind("slices that are none",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "a", {0});
                  add_ints_tensor(g, "b", {8});
                  add_ints_tensor(g, "axes", {pick({int64_t{9}, int64_t{-9}, int64_t{3}}, v)});
                  add_ints_tensor(g, "steps", {v == 2 ? 0 : 1});
                  add_node(g, "Slice", {"x", "a", "b", "axes", "steps"}, {"y"});
                }),
      node_kind("axes to squeeze that are none",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "axes", {pick({int64_t{1}, int64_t{7}, INT64_MIN}, v)});
                  add_node(g, "Squeeze", {"x", "axes"}, {"y"});
                }),
      node_kind("axes to insert that are none",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "axes", pick({std::vector<int64_t>{9}, {0, 0}, {INT64_MAX}}, v));
                  add_node(g, "Unsqueeze", {"x", "axes"}, {"y"});
                }),
      node_kind(
          "a parameter of no elements",
          [](onnx::GraphProto* g, int v) {
            auto* none = g->add_initializer();
            none->set_name("none");
            none->add_dims(0);
            none->set_data_type(v % 2 == 0 ? TensorProto::BOOL : TensorProto::FLOAT);
            if (v == 0) add_node(g, "Dropout", {"x", "", "none"}, {"y"});
            if (v == 1) add_node(g, "Clip", {"x", "none"}, {"y"});
            if (v == 2) {
              auto* body = add_body(add_node(g, "Loop", {"", "none", "x"}, {"y"}), "body", "w");
              add_value(body->add_input(), "i", {}, TensorProto::INT64);
              add_value(body->add_input(), "goes_on", {}, TensorProto::BOOL);
              add_value(body->add_input(), "v", {1, 2, 8, 8});
              body->mutable_output(0)->set_name("goes_on");
              body->add_output()->set_name("w");
            }
            if (v == 3) {
              add_ints_tensor(g, "i", {1});
              add_ints_tensor(g, "depth", {3});
              add_node(g, "OneHot", {"i", "depth", "none"}, {"y"});
            }
          },
          4),
      node_kind("a scale that does not broadcast",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "s", pick({std::vector<int64_t>{7}, {1, 1, 1, 1, 8}, {3, 1, 1}}, v));
                  add_node(g, "LayerNormalization", {"x", "s"}, {"y"});
                }),
      node_kind("labels of other scores",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "labels", pick({std::vector<int64_t>{3, 8, 8}, {1, 7, 8}, {1, 8, 9}}, v),
                            TensorProto::INT64);
                  add_node(g, v == 0 ? "NegativeLogLikelihoodLoss" : "SoftmaxCrossEntropyLoss", {"x", "labels"}, {"y"});
                }),
      node_kind("shapes that do not broadcast",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "b", pick({std::vector<int64_t>{7}, {3, 1, 1, 2}, {2, 8, 9}}, v));
                  add_node(g, "Add", {"x", "b"}, {"y"});
                }),
      node_kind("shapes that do not multiply",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "b", pick({std::vector<int64_t>{7, 8}, {9}, {3, 3, 8, 8}}, v));
                  add_node(g, "MatMul", {"x", "b"}, {"y"});
                }),
      node_kind(
          "a type to cast to that is none",
          [](onnx::GraphProto* g, int v) {
            add_int(add_node(g, "Cast", {"x"}, {"y"}), "to", pick({int64_t{0}, int64_t{99}, INT64_MIN, INT64_MAX}, v));
          },
          4),
      node_kind(
          "an equation that is none",
          [](onnx::GraphProto* g, int v) {
            auto* a = add_node(g, "Einsum", {"x", "k"}, {"y"})->add_attribute();
            a->set_name("equation");
            a->set_type(AttributeProto::STRING);
            a->set_s(pick({std::string("abcd,efgh->z"), std::string("ab,cd"), std::string(1 << 16, 'a'),
                           std::string("...->\0", 6)},
                          v));
          },
          4),
      node_kind("a constant of nothing, or of several",
                [](onnx::GraphProto* g, int v) {
                  auto* node = add_node(g, "Constant", {}, {"y"});
                  if (v == 1) add_int(node, "value_int", 1), add_ints(node, "value_ints", {1});
                  if (v == 2) add_int(node, "value", 1);
                }),
      node_kind("a tensor attribute that is spoilt",
                [](onnx::GraphProto* g, int v) {
                  auto* a = add_node(g, "Constant", {}, {"y"})->add_attribute();
                  a->set_name("value");
                  a->set_type(AttributeProto::TENSOR);
                  if (v == 0) return;
                  a->mutable_t()->set_data_type(TensorProto::FLOAT);
                  a->mutable_t()->add_dims(v == 1 ? -3 : 3);
                }),
      node_kind(
          "blocks that do not fit",
          [](onnx::GraphProto* g, int v) {
            add_int(add_node(g, "DepthToSpace", {"x"}, {"y"}), "blocksize",
                    pick({int64_t{0}, int64_t{-1}, int64_t{3}, INT64_MAX}, v));
          },
          4),
      node_kind("an index beyond the rank",
                [](onnx::GraphProto* g, int v) {
                  add_ints_tensor(g, "i", {0});
                  add_int(
                      add_node(g, pick({"Gather", "GatherElements", "ScatterElements"}, v),
                               v == 2 ? std::vector<std::string>{"x", "i", "x"} : std::vector<std::string>{"x", "i"},
                               {"y"}),
                      "axis", 4);
                }),
      node_kind(
          "scales that are none",
          [](onnx::GraphProto* g, int v) {
            auto* s = g->add_initializer();
            s->set_name("s");
            s->set_data_type(TensorProto::FLOAT);
            s->add_dims(4);
            for (int i = 0; i < 4; ++i) s->add_float_data(pick({0.0f, -1.0f, __builtin_nanf(""), __builtin_inff()}, v));
            add_node(g, "Resize", {"x", "", "s"}, {"y"});
          },
          4),
      node_kind("a state that does not fit",
                [](onnx::GraphProto* g, int v) {
                  add_value(g->add_input(), "s", {4, 2, 3});
                  add_value(g->add_input(), "W", {1, v == 0 ? 7 : 8, 3});
                  add_value(g->add_input(), "R", {1, 8, v == 1 ? 5 : 2});
                  add_int(add_node(g, "LSTM", {"s", "W", "R"}, {"y"}), "hidden_size", v == 2 ? 0 : 2);
                }),
  };
}

}  // namespace fettle::hostile
