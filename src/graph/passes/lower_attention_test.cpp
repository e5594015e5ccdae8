// What Attention and RotaryEmbedding become, and what is refused of them. Their results are compared elsewhere, with
// ONNX's cases (frontend/onnx/conformance_cases.txt).

#include "graph/passes/lower_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

constexpr int64_t kBatch = 2, kHeads = 6, kQueries = 3, kKeys = 5, kWidth = 4;

TensorType f32(Shape shape) { return {kF32, std::move(shape)}; }

struct Layer {
  Graph graph{"g"};
  Node* node = nullptr;

  Value* input(std::string name, TensorType type) { return graph.add_input(std::move(name), std::move(type)); }
  void set(size_t i, const std::string& name, TensorType type) {
    if (i >= node->inputs.size()) graph.resize_inputs(node, i + 1);
    graph.set_input(node, i, input(name, std::move(type)));
  }
  void set(const std::string& name, AttrValue value) { node->attrs.set(name, std::move(value)); }
  std::string error() {
    const auto done = optimize(graph);
    return done ? "" : done.error().to_string();
  }
  size_t count(std::string_view op) const {
    size_t count = 0;
    for (const Node* n : graph.nodes()) count += n->op->name == op ? 1 : 0;
    return count;
  }
};

Layer attention(int64_t kv_heads = kHeads, int64_t keys = kKeys) {
  Layer made;
  Value* q = made.input("q", f32({kBatch, kHeads, kQueries, kWidth}));
  Value* k = made.input("k", f32({kBatch, kv_heads, keys, kWidth}));
  Value* v = made.input("v", f32({kBatch, kv_heads, keys, kWidth}));
  made.node = made.graph.add_node(find_op("Attention"), "attention", {q, k, v}, {}, {}, 4);
  made.graph.add_output("y", made.node->output(0));
  return made;
}
Layer rotary(bool has_positions = false) {
  Layer made;
  Value* x = made.input("x", f32({kBatch, kHeads, kQueries, kWidth}));
  const Shape table = has_positions ? Shape{9, kWidth / 2} : Shape{kBatch, kQueries, kWidth / 2};
  Value *c = made.input("c", f32(table)), *s = made.input("s", f32(table));
  made.node = made.graph.add_node(find_op("RotaryEmbedding"), "rotary", {x, c, s}, {}, {}, 1);
  if (has_positions) made.set(3, "positions", {kI64, {kBatch, kQueries}});
  made.graph.add_output("y", made.node->output(0));
  return made;
}

void expect_says(const std::string& error, const std::string& code, const std::string& words) {
  EXPECT_NE(error.find(code), std::string::npos) << error;
  EXPECT_NE(error.find(words), std::string::npos) << error;
}
using Change = std::function<void(Layer&)>;
void expect_refuses(const Change& change, const std::string& code, const std::string& words) {
  Layer made = attention();
  change(made);
  expect_says(made.error(), code, words);
}

TEST(LowerAttention, HeadsAreRepeatedOnlyWhereTheyAreShared) {
  Layer alone = attention();
  ASSERT_EQ(alone.error(), "");
  EXPECT_EQ(alone.count("MatMul"), 2u);
  EXPECT_EQ(alone.count("Expand"), 0u);
  Layer shared = attention(/*kv_heads=*/2);
  ASSERT_TRUE(infer_shapes(shared.graph, {}));
  EXPECT_EQ(shared.count("Expand"), 2u);
  EXPECT_EQ(shared.error(), "");
}

TEST(LowerAttention, MasksOfOpset23BroadcastAndLaterOnesEnd) {
  for (const bool is_whole : {false, true}) {
    Layer made = attention();
    made.set(3, "mask", {kBool, {kQueries, 1}});
    if (is_whole) made.set("whole_mask", int64_t{1});
    ASSERT_EQ(made.error(), "");
    std::map<std::string, ConstantTensor> inputs;
    for (const Value* value : made.graph.inputs())
      inputs.emplace(value->name, *filled(1, value->dtype(), value->extents()));
    // Values of keys 0, 1, …: their mean is 2; that of the one that isn't masked is 0.
    TensorBuilder v = make_tensor(kF32, {kBatch, kHeads, kKeys, kWidth}).value();
    for (size_t i = 0; i < v.elems<float>().size(); ++i)
      v.elems<float>()[i] = static_cast<float>(static_cast<int64_t>(i) / kWidth % kKeys);
    inputs.insert_or_assign("v", std::move(v).finish());
    const auto outputs = evaluate(made.graph, inputs, interpreter_executor());
    ASSERT_TRUE(outputs) << outputs.error().to_string();
    EXPECT_EQ(outputs->at("y").at(0), is_whole ? 2 : 0);
  }
}

TEST(LowerAttention, WhatLiesBeyondTheMaskIsRefused) {
  expect_refuses([](Layer& l) { l.set(3, "mask", {kBool, {kQueries, kKeys + 1}}); }, "E605",
                 "the mask is bool[3, 6], and the scores are [2, 6, 3, 5]");
  expect_refuses([](Layer& l) { l.set(3, "mask", f32({kQueries + 1, kKeys})); }, "E605", "the mask is f32[4, 5]");
  expect_refuses([](Layer& l) { l.set(3, "mask", f32({1, 1, 1, kQueries, kKeys})); }, "E605", "the mask is f32");
  expect_refuses([](Layer& l) { l.set(3, "mask", {kI32, {kQueries, kKeys}}); }, "E603",
                 "Attention of f32 with a mask of i32");
  expect_refuses(
      [](Layer& l) {
        l.set(3, "mask", {kBool, {kQueries, kKeys - 1}});
        l.set("whole_mask", int64_t{1});
      },
      "E605", "the mask is bool[3, 4]");
}

TEST(LowerAttention, RefusesAttributesByName) {
  expect_refuses([](Layer& l) { l.set("window", int64_t{1}); }, "E606", "Attention: it has no attribute \"window\"");
  expect_refuses([](Layer& l) { l.set("scale", int64_t{1}); }, "E606", "scale is of another type");
  expect_refuses([](Layer& l) { l.set("is_causal", int64_t{2}); }, "E606", "is_causal is 2, not 0 to 1");
  expect_refuses([](Layer& l) { l.set("softcap", -1.0); }, "E606", "softcap is -1, not 0 or more");
  expect_refuses([](Layer& l) { l.set("softmax_precision", int64_t{7}); }, "E606", "softmax_precision is 7");
  expect_refuses([](Layer& l) { l.set("qk_matmul_output_mode", int64_t{4}); }, "E606", "is 4, not 0 to 3");
  expect_refuses([](Layer& l) { l.set("q_num_heads", int64_t{4}); }, "E606", "q_num_heads is 4, of 6 heads");
}

TEST(LowerAttention, RefusesInputsThatDoNotFit) {
  expect_refuses([](Layer& l) { l.set(0, "in", f32({kBatch, kQueries, kHeads * kWidth})); }, "E605",
                 "K is f32[2, 6, 5, 4], and Q is f32[2, 3, 24]");
  expect_refuses([](Layer& l) { l.set(1, "in", f32({kBatch, kHeads, kKeys, kWidth + 1})); }, "E605",
                 "K is f32[2, 6, 5, 5] instead of f32[2, 6, 5, 4]");
  expect_refuses([](Layer& l) { l.set(2, "in", f32({kBatch, kHeads, kKeys + 1, kWidth})); }, "E605",
                 "V is f32[2, 6, 6, 4] instead of f32[2, 6, 5, 4]");
  expect_refuses([](Layer& l) { l.set(2, "in", {kF16, {kBatch, kHeads, kKeys, kWidth}}); }, "E603",
                 "Attention with V of f16, and Q of f32");
  expect_refuses([](Layer& l) { l.set(4, "past", f32({kBatch, kHeads, 1, kWidth})); }, "E606",
                 "past_key and past_value come together");
  expect_says(attention(/*kv_heads=*/4).error(), "E605", "6 heads of queries do not share 4 of keys");
}

TEST(LowerAttention, OpenSizesAreThoseOfTheInputs) {
  Layer made;
  const auto size = [](const std::string& name) { return Dim::symbol(name); };
  Value* q = made.input("q", f32({size("B"), size("S"), 24}));
  Value* k = made.input("k", f32({size("B"), size("L"), 8}));
  Value* v = made.input("v", f32({size("B"), size("L"), 8}));
  made.node = made.graph.add_node(find_op("Attention"), "attention", {q, k, v}, {}, {}, 4);
  made.set("q_num_heads", int64_t{6});
  made.set("kv_num_heads", int64_t{2});
  made.set("is_causal", int64_t{1});
  made.set(4, "past_key", f32({size("B"), 2, size("P"), 4}));
  made.set(5, "past_value", f32({size("B"), 2, size("P"), 4}));
  made.graph.add_output("y", made.node->output(0));
  made.graph.add_output("key", made.node->output(1));
  ASSERT_EQ(made.error(), "");
  EXPECT_EQ(to_string(made.graph.outputs()[0].value->shape()), "[B, S, 24]");
  EXPECT_EQ(made.graph.outputs()[1].value->shape()[2], size("L") + size("P"));
  EXPECT_TRUE(require_sizes(made.graph));
}

TEST(LowerRotary, RefusesWhatDoesNotFit) {
  const auto refuses = [](const Change& change, const std::string& code, const std::string& words) {
    Layer made = rotary();
    change(made);
    expect_says(made.error(), code, words);
  };
  EXPECT_EQ(rotary().error(), "");
  EXPECT_EQ(rotary(/*has_positions=*/true).error(), "");
  refuses([](Layer& l) { l.set("rotary_embedding_dim", int64_t{3}); }, "E606", "3 columns of 4 are turned");
  refuses([](Layer& l) { l.set("rotary_embedding_dim", int64_t{6}); }, "E606", "6 columns of 4 are turned");
  refuses([](Layer& l) { l.set("rotary_embedding_dim", int64_t{2}); }, "E605",
          "cos_cache is f32[2, 3, 2] instead of f32[2, 3, 1]");
  refuses([](Layer& l) { l.set(0, "in", f32({kBatch, kQueries, 24})); }, "E606", "rank 3 needs num_heads");
  refuses([](Layer& l) { l.set("interleaved", int64_t{2}); }, "E606", "interleaved is 2");
}

TEST(TensorScatter, RefusesWhatDoesNotFit) {
  const auto error_of = [](Shape cache, Shape update, const Attrs& attrs = {}) {
    Layer made;
    Value *c = made.input("c", f32(std::move(cache))), *u = made.input("u", f32(std::move(update)));
    Value* at = made.input("at", {kI64, {kBatch}});
    made.node = made.graph.add_node(find_op("TensorScatter"), "scatter", {c, u, at}, attrs);
    made.graph.add_output("y", made.node->output());
    return made.error();
  };
  EXPECT_EQ(error_of({kBatch, 8, kWidth}, {kBatch, 2, kWidth}), "");
  expect_says(error_of({kBatch, 8, kWidth}, {kBatch, 9, kWidth}), "E605", "9 are written to 8 places");
  expect_says(error_of({kBatch, 8, kWidth}, {kBatch, 2, kWidth + 1}), "E605", "update is f32[2, 2, 5] instead of");
  expect_says(error_of({3, 8, kWidth}, {3, 2, kWidth}), "E605", "write_indices is i64[2] instead of i64[3]");
  expect_says(error_of({kBatch, 8, kWidth}, {kBatch, 2, kWidth}, {{"axis", int64_t{0}}}), "E606", "axis is 0");
  expect_says(error_of({kBatch, 8, kWidth}, {kBatch, 2, kWidth}, {{"mode", std::string("ring")}}), "E606",
              "mode is \"ring\"");
}

}  // namespace
}  // namespace fettle::passes
