#include "graph/passes/lowering.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"

namespace fettle::passes {
namespace {

// A graph of one node over inputs of f32[2, 3].
Graph graph_of(const char* op, int n_inputs, Attrs attrs = {}, size_t n_outputs = 1) {
  Graph g("g");
  std::vector<Value*> inputs;
  for (int i = 0; i < n_inputs; ++i)
    inputs.push_back(g.add_input(std::string(1, static_cast<char>('a' + i)), {kF32, {2, 3}}));
  Node* node = g.add_node(find_op(op), "layer", inputs, std::move(attrs), {}, n_outputs);
  node->provenance = {{op, "layer"}};
  g.add_output("y", node->output());
  return g;
}

TEST(Lowering, OthersStandForTheNode) {
  Graph g = graph_of("com.microsoft.BiasGelu", 2);
  ASSERT_TRUE(optimize(g));
  ASSERT_EQ(g.nodes().size(), 2u);
  EXPECT_EQ(g.nodes()[0]->op->name, "Add");
  EXPECT_EQ(g.nodes()[1]->op->name, "Gelu");
  for (const Node* node : g.nodes()) EXPECT_EQ(to_text(node->provenance), "com.microsoft.BiasGelu layer");
  EXPECT_EQ(g.outputs()[0].name, "y");
}

TEST(Lowering, UnknownAttributesAreRefusedByName) {
  Graph g = graph_of("com.microsoft.FusedMatMul", 2, {{{"transposed", int64_t{1}}}});
  const auto refused = optimize(g);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E606);
  EXPECT_NE(refused.error().message.find("transposed"), std::string::npos);
  Graph other = graph_of("com.microsoft.BiasGelu", 2, {{{"colour", int64_t{1}}}});
  EXPECT_EQ(optimize(other).error().code, ErrorCode::E606);
}

TEST(Lowering, WhatAttributesSayIsRefusedByName) {
  struct Case {
    const char* name;
    int n_inputs;
    Attrs attrs;
    std::string_view why;
  };
  for (const auto& [name, n_inputs, attrs, why] : std::vector<Case>{
           {"com.microsoft.FusedGemm",
            2,
            {{{"activation", std::string("HardSigmoid")}, {"activation_beta", 0.5}}},
            "activation_beta without activation_alpha"},
           {"com.microsoft.FusedGemm",
            2,
            {{{"activation", std::string("Relu")}, {"activation_alpha", 0.5}, {"transB", int64_t{1}}}},
            "1 parameters of the activation Relu, which has 0"},
           {"com.microsoft.GroupQueryAttention",
            7,
            {{{"num_heads", int64_t{1}}, {"kv_num_heads", int64_t{1}}, {"local_window_size", int64_t{0}}}},
            "local_window_size is 0"},
           {"com.microsoft.QGemm", 8, {}, "of the result's scale and zero point one is missing"}}) {
    Graph g = graph_of(name, n_inputs, attrs);
    const auto refused = optimize(g);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, ErrorCode::E606) << name;
    EXPECT_NE(refused.error().message.find(why), std::string::npos) << refused.error().to_string();
  }
}

// What cannot be typed makes the lowering fail, with the node's name, whatever comes after it.
TEST(Lowering, TheFirstNodeThatFailsIsTold) {
  Graph g = graph_of("com.microsoft.FusedMatMul", 2, {{{"alpha", 0.5}}});  // [2, 3] · [2, 3]
  const auto refused = optimize(g);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E605);
  EXPECT_NE(refused.error().where.find("layer"), std::string::npos) << refused.error().where;
}

// An output that nothing stands for may be missing, but not be used.
TEST(Lowering, OutputsThatAreNotMadeMustNotBeUsed) {
  for (const bool is_used : {false, true}) {
    Graph g("g");
    Value *x = g.add_input("x", {kF32, {2, 3}}), *gamma = g.add_input("gamma", {kF32, {3}});
    Node* node =
        g.add_node(find_op("com.microsoft.SkipSimplifiedLayerNormalization"), "layer", {x, x, gamma}, {}, {}, 2);
    g.add_output("y", node->outputs[0]);
    if (is_used) g.add_output("mean", node->outputs[1]);
    EXPECT_EQ(optimize(g).has_value(), !is_used);
  }
}

}  // namespace
}  // namespace fettle::passes
