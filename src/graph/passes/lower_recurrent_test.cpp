// What recurrent layers become, and what is refused of them. Their results are compared elsewhere: with ONNX's cases
// (frontend/onnx/conformance_cases.txt) and beside ONNX Runtime (python/tests/test_recurrent.py).

#include "graph/passes/lower_recurrent.h"

#include <gtest/gtest.h>

#include <functional>

#include "graph/control.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"

namespace fettle::passes {
namespace {

constexpr int64_t kSteps = 5, kBatch = 2, kInputs = 3, kHidden = 4;

TensorType f32(Shape shape) { return {kF32, std::move(shape)}; }

/// A layer whose inputs are the graph's, weights constant; `change` makes another one of it.
using Change = std::function<void(Graph& graph, Node* layer)>;
Graph layer_graph(std::string_view op, const Change& change = {}, bool reads_rows = true) {
  const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1, directions = 1;
  Graph graph("g");
  const auto weights = [&](const std::string& name, std::vector<int64_t> shape) {
    return graph.add_constant(name, *filled(0.125, kF32, std::move(shape)));
  };
  Value* x = graph.add_input("x", f32({kSteps, kBatch, kInputs}));
  Value* w = weights("W", {directions, gates * kHidden, kInputs});
  Value* r = weights("R", {directions, gates * kHidden, kHidden});
  Value* b = weights("B", {directions, 2 * gates * kHidden});
  Node* layer = graph.add_node(find_op(op), "layer", {x, w, r, b}, {}, {}, 2);
  if (change) change(graph, layer);
  if (reads_rows) graph.add_output("y", layer->output(0));
  graph.add_output("y_h", layer->output(1));
  return graph;
}

std::string error_of(std::string_view op, const Change& change) {
  Graph graph = layer_graph(op, change);
  const auto done = optimize(graph);
  return done ? "" : done.error().to_string();
}
std::string error_of(std::string_view op, std::string_view attribute, const AttrValue& value) {
  return error_of(op, [&](Graph&, Node* layer) { layer->attrs.set(std::string(attribute), value); });
}

void expect_says(const std::string& error, const std::string& code, const std::string& words) {
  EXPECT_NE(error.find(code), std::string::npos) << error;
  EXPECT_NE(error.find(words), std::string::npos) << error;
}

std::vector<const Node*> find_all(const Graph& graph, std::string_view op) {
  std::vector<const Node*> found;
  for (const Node* node : graph.nodes())
    if (node->op->name == op) found.push_back(node);
  return found;
}

TEST(LowerRecurrent, AStepIsOneProductOfConstantWeights) {
  for (const std::string_view op : {"RNN", "GRU", "LSTM"}) {
    Graph graph = layer_graph(op, [&](Graph&, Node* layer) {
      if (op == "GRU") layer->attrs.set("linear_before_reset", int64_t{1});
    });
    ASSERT_TRUE(optimize(graph));
    EXPECT_EQ(find_all(graph, "MatMul").size(), 1u) << to_text(graph);  // of all inputs
    const auto loops = find_all(graph, "Loop");
    ASSERT_EQ(loops.size(), 1u) << to_text(graph);
    const auto products = find_all(*loops[0]->bodies[0], "MatMul");
    ASSERT_EQ(products.size(), 1u) << to_text(graph);
    EXPECT_TRUE(products[0]->input(1)->is_constant()) << to_text(graph);
  }
}

// What all steps make of the inputs would go through memory; a step of many rows reads W often enough by itself.
TEST(LowerRecurrent, StepsOfManyRowsMultiplyTheirOwnInputs) {
  struct Case {
    int64_t steps, batch;
    bool in_steps;
  };
  for (const auto& [steps, batch, in_steps] : {Case{4096, 4, false}, {64, 16, false}, {8192, 16, true}}) {
    Graph graph = layer_graph("LSTM", [&](Graph& g, Node* layer) {
      g.set_input(layer, 0, g.add_input("many", f32({steps, batch, kInputs})));
    });
    ASSERT_TRUE(optimize(graph));
    EXPECT_EQ(find_all(graph, "MatMul").size(), in_steps ? 0U : 1U) << to_text(graph);
    const auto loops = find_all(graph, "Loop");
    ASSERT_EQ(loops.size(), 1U);
    EXPECT_EQ(find_all(*loops[0]->bodies[0], "MatMul").size(), in_steps ? 2U : 1U) << to_text(graph);
  }
}

TEST(LowerRecurrent, WhatNobodyReadsIsNotStacked) {
  for (const bool reads_rows : {true, false}) {
    Graph graph = layer_graph("GRU", {}, reads_rows);
    ASSERT_TRUE(optimize(graph));
    const auto loops = find_all(graph, "Loop");
    ASSERT_EQ(loops.size(), 1u) << to_text(graph);
    EXPECT_EQ(LoopParts(*loops[0]).n_scans, reads_rows ? 1 : 0) << to_text(graph);
  }
}

TEST(LowerRecurrent, LengthsOfAllStepsAreNone) {
  const auto with_lengths = [](int64_t second) {
    return [second](Graph& graph, Node* layer) {
      const double lengths[] = {static_cast<double>(kSteps), static_cast<double>(second)};
      graph.set_input(layer, 4, graph.add_constant("lengths", *to_tensor(lengths, kI32, {kBatch})));
    };
  };
  for (const int64_t second : {kSteps, kSteps - 1}) {
    Graph graph = layer_graph("LSTM", with_lengths(second));
    ASSERT_TRUE(optimize(graph));
    size_t masks = 0;
    for_each_graph(graph, [&](const Graph& g) { masks += find_all(g, "Where").size(); });
    EXPECT_EQ(masks > 0, second < kSteps) << to_text(graph);
  }
  expect_says(error_of("LSTM", with_lengths(kSteps + 1)), "E605", "sequence_lens has 6, of 5 steps");
}

TEST(LowerRecurrent, RefusesAttributesByName) {
  using Names = std::vector<std::string>;
  expect_says(error_of("LSTM", "hidden_size", int64_t{5}), "E606", "hidden_size is 5, and R is f32[1, 16, 4]");
  expect_says(error_of("GRU", "direction", std::string("both")), "E606", "direction is \"both\"");
  expect_says(error_of("GRU", "layout", int64_t{2}), "E606", "layout is 2, not 0 or 1");
  expect_says(error_of("RNN", "clip", 0.0), "E606", "clip is 0, not above 0");
  expect_says(error_of("RNN", "input_forget", int64_t{1}), "E606", "RNN: it has no attribute \"input_forget\"");
  expect_says(error_of("LSTM", "output_sequence", int64_t{1}), "E606", "no attribute \"output_sequence\"");
  expect_says(error_of("LSTM", "clip", int64_t{1}), "E606", "clip is of another type");
  expect_says(error_of("LSTM", "activations", Names{"Tanh"}), "E606", "activations names 1 functions instead of 3");
  expect_says(error_of("RNN", "activations", Names{"Gelu"}), "E603", "RNN with the activation \"Gelu\"");
  expect_says(error_of("RNN", "activations", Names{"Affine"}), "E606", "activation_alpha lacks a value for Affine");
  expect_says(error_of("GRU", "activation_beta", std::vector<double>{1}), "E606",
              "activation_beta has 1 values, of which its activations take 0");
}

TEST(LowerRecurrent, OneValueForEachActivationIsReadWhereItMeansTheSame) {
  const auto with = [](std::vector<double> alpha) {
    return [alpha = std::move(alpha)](Graph&, Node* layer) {
      layer->attrs.set("activations", std::vector<std::string>{"LeakyRelu", "elu", "Tanh"});
      layer->attrs.set("activation_alpha", alpha);
    };
  };
  EXPECT_EQ(error_of("LSTM", with({0.1, 0.2})), "");
  EXPECT_EQ(error_of("LSTM", with({0.1, 0.2, 0})), "");
  expect_says(error_of("LSTM", with({0.1, 0.2, 0, 0})), "E606", "activation_alpha has 4 values");
}

TEST(LowerRecurrent, RefusesInputsThatDoNotFit) {
  const auto with = [](size_t i, TensorType type) {
    return [i, type = std::move(type)](Graph& graph, Node* layer) {
      graph.set_input(layer, i, graph.add_input("in", type));
    };
  };
  expect_says(error_of("LSTM", with(0, f32({kSteps, kInputs}))), "E605", "X is f32[5, 3], not of rank 3");
  expect_says(error_of("LSTM", with(1, f32({1, 12, kInputs}))), "E605", "W is f32[1, 12, 3] instead of f32[1, 16, 3]");
  expect_says(error_of("LSTM", with(3, f32({1, 16}))), "E605", "B is f32[1, 16] instead of f32[1, 32]");
  expect_says(error_of("GRU", with(4, {kI64, {kBatch}})), "E605", "sequence_lens is i64[2] instead of i32[2]");
  expect_says(error_of("GRU", with(5, f32({2, kBatch, kHidden}))), "E605", "initial_h is f32[2, 2, 4]");
}

TEST(LowerRecurrent, AnOpenHiddenSizeIsTheAttribute) {
  const auto open = [](bool is_stated) {
    return [is_stated](Graph& graph, Node* layer) {
      graph.set_input(layer, 2, graph.add_input("in", f32({1, 16, Dim::symbol("H")})));
      layer->attrs.erase("hidden_size");
      if (is_stated) layer->attrs.set("hidden_size", kHidden);
    };
  };
  EXPECT_EQ(error_of("LSTM", open(true)), "");
  expect_says(error_of("LSTM", open(false)), "E604", "the hidden size must be fixed");
}

}  // namespace
}  // namespace fettle::passes
