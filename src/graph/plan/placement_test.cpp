#include "graph/plan/placement.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"

namespace fettle {
namespace {

/// Plans, and checks that the plan computes what the graph does. Returns the plan.
Plan checked_plan(GraphMaker& m, ImageLayout layout = ImageLayout::kChannelsLast) {
  m.graph.sort();
  Plan plan = *make_plan(m.graph, {.layout = layout});
  assign_memory(plan, [](int) { return true; });
  std::map<std::string, ConstantTensor> inputs;
  RandomStream random{5};
  for (const Value* value : m.graph.inputs()) {
    TensorBuilder t = *make_tensor(kF32, value->extents());
    for (float& x : t.elems<float>()) x = static_cast<float>(2 * random.uniform() - 1);
    inputs.emplace(value->name, std::move(t).finish());
  }
  const auto want = evaluate(m.graph, inputs, interpreter_executor());
  EXPECT_TRUE(want.has_value());
  for (const auto& [name, got] : run_plan(m.graph, plan, inputs))
    for (int64_t i = 0; i < got.n_elems(); ++i) {
      EXPECT_NEAR(got.at(i), want->at(name).at(i), 1e-5) << name << " " << i << "\n" << to_text(plan);
      if (std::abs(got.at(i) - want->at(name).at(i)) > 1e-5) return plan;
    }
  return plan;
}

Attrs axis(int64_t value) {
  Attrs attrs;
  attrs.set("axis", value);
  return attrs;
}

TEST(Placement, PartsAreMadeInTheirPlace) {
  for (const ImageLayout layout : {ImageLayout::kChannelsLast, ImageLayout::kChannelsFirst}) {
    GraphMaker m;
    Value* x = m.input("x", {1, 4, 5, 6});
    Value* a = m.node("Relu", {m.conv(x, 3, 3)});
    Value* b = m.conv(x, 5, 1);
    Value* concatenated = m.node("Concat", {a, b}, axis(1));
    m.graph.add_output("y", m.conv(concatenated, 2, 1));
    const Plan plan = checked_plan(m, layout);
    EXPECT_EQ(plan.calls.size(), 3u) << to_text(plan);
    EXPECT_EQ(plan.views, 1);
  }
}

TEST(Placement, ConcatenationsOfConcatenations) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 5, 6});
  Value* a = m.conv(x, 3, 3);
  Value* ab = m.node("Concat", {a, m.conv(a, 2, 3)}, axis(1));
  Value* abc = m.node("Concat", {ab, m.conv(ab, 2, 3)}, axis(1));
  m.graph.add_output("y", m.conv(abc, 2, 1));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 4u) << to_text(plan);
}

TEST(Placement, EnlargedImagesAreReadThroughTheirMap) {
  for (const ImageLayout layout : {ImageLayout::kChannelsLast, ImageLayout::kChannelsFirst}) {
    GraphMaker m;
    Value* x = m.input("x", {1, 4, 3, 2});
    Value* fine = m.node("Relu", {m.input("fine", {1, 5, 6, 4})});
    Attrs attrs;
    attrs.set("scales", std::vector<double>{1, 1, 2, 2});
    attrs.set("coordinate_transformation_mode", std::string("asymmetric"));
    attrs.set("nearest_mode", std::string("floor"));
    Value* sum = m.node("Add", {fine, m.node("Resize", {m.conv(x, 5, 1)}, attrs)});
    m.graph.add_output("y", m.conv(sum, 3, 1));
    const Plan plan = checked_plan(m, layout);
    EXPECT_EQ(plan.calls.size(), 3u) << to_text(plan);
  }
}

// An input of the model, a constant, and what occurs a second time are copied.
TEST(Placement, WhatCannotBeMadeThereIsCopied) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 5, 6});
  Value* a = m.conv(x, 3, 1);
  Value* concatenated = m.node("Concat", {x, a, m.constant("c", {1, 2, 5, 6}), a}, axis(1));
  m.graph.add_output("y", m.node("Relu", {concatenated}));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 5u) << to_text(plan);
  for (const PlannedCall& call : plan.calls)
    for (size_t i = 0; i < call.operands.size(); ++i)
      EXPECT_EQ(plan.storages[static_cast<size_t>(call.operands[i].storage)].kind == Storage::Kind::kConstant,
                plan.workloads[static_cast<size_t>(call.workload)].func->params[i].kind == ParamKind::kConstant)
          << call.name;
}

TEST(Placement, PartsThroughViews) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 3, 2});
  const auto head = [&](int64_t channels) {
    Value* transposed = m.node("Transpose", {m.conv(x, channels, 1)}, with_ints("perm", {0, 2, 3, 1}));
    return m.node("Reshape", {transposed}, with_ints("shape", {1, 6 * channels / 2, 2}));
  };
  m.graph.add_output("y", m.node("Concat", {head(4), head(2)}, axis(1)));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 2u) << to_text(plan);
}

TEST(Placement, ElementwiseKernelsDoNotOverwriteOtherParts) {
  GraphMaker m;
  Value* x = m.input("x", {2, 6});
  Value* w = m.constant("w", {6, 6}, 0.01);
  Value* a = m.node("MatMul", {x, w});
  Value* b = m.node("MatMul", {a, w});
  Value* concatenated = m.node("Concat", {m.node("Sigmoid", {a}), b}, axis(0));
  m.graph.add_output("y", m.node("MatMul", {m.node("Relu", {concatenated}), w}));
  checked_plan(m);
}

TEST(Placement, HeadsAreWrittenWhereTheirRowsBelong) {
  GraphMaker m;
  Value* p = m.input("p", {1, 3, 5, 4});
  Value* v = m.input("v", {1, 3, 4, 8});
  Value* transposed = m.node("Transpose", {m.node("MatMul", {p, v})}, with_ints("perm", {0, 2, 1, 3}));
  Value* rows = m.node("Reshape", {transposed}, with_ints("shape", {5, 24}));
  m.graph.add_output("y", m.node("MatMul", {rows, m.constant("w", {24, 4})}));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 2u) << to_text(plan);
}

// Another order of the innermost dimension would have the product scatter its vectors.
TEST(Placement, WhatWouldScatterIsCopied) {
  GraphMaker m;
  Value* x = m.input("x", {1, 4, 5, 6});
  Value* flat = m.node("Reshape", {m.conv(m.conv(x, 8, 1), 8, 1)}, with_ints("shape", {1, 240}));
  m.graph.add_output("y", m.node("MatMul", {flat, m.constant("w", {240, 4})}));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 4u) << to_text(plan);
}

TEST(Placement, OutputsThroughViews) {
  GraphMaker m;
  Value* p = m.input("p", {3, 5, 4});
  Value* v = m.input("v", {3, 4, 8});
  m.graph.add_output("y", m.node("Transpose", {m.node("MatMul", {p, v})}, with_ints("perm", {1, 0, 2})));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(plan.calls.size(), 1u) << to_text(plan);
}

// An input that a node leaves out keeps its place among the arguments: a bound alone is the upper one.
/// A layer in both directions, of [5, 2, 3] inputs and 4 hidden values; returns its rows and its last states.
std::vector<Value*> layer_of_rows(GraphMaker& m, const std::string& direction) {
  const int64_t directions = direction == "bidirectional" ? 2 : 1;
  Attrs attrs;
  attrs.set("direction", direction);
  Value* x = m.input("x", {5, 2, 3});
  Value* w = m.weights("W", {directions, 4, 3}, 2, 1);
  Value* r = m.weights("R", {directions, 4, 4}, 2, 2);
  Node* layer = m.graph.add_node(find_op("RNN"), "layer", {x, w, r}, std::move(attrs), {}, 2);
  return {layer->output(0), layer->output(1)};
}

std::vector<std::string> calls_outside_of_loops(const Plan& plan) {
  std::vector<std::string> names;
  for (const PlanStep& step : plan.steps)
    if (step.kind == PlanStep::Kind::kCall) names.push_back(plan.calls[static_cast<size_t>(step.call)].name);
  return names;
}

// Each iteration writes its row where the model's output has it, in the other direction from the last to the first.
TEST(Placement, RowsOfLoopsAreWrittenWhereTheyBelong) {
  for (const std::string direction : {"forward", "reverse", "bidirectional"})
    for (const bool is_output : {true, false}) {
      GraphMaker m;
      const auto rows = layer_of_rows(m, direction);
      // Its type comes with the layer's.
      Value* read = is_output ? rows[0] : m.graph.add_node(find_op("Relu"), "read", {rows[0]})->output();
      m.graph.add_output("y", read);
      ASSERT_TRUE(optimize(m.graph));
      const Plan plan = checked_plan(m);
      for (const std::string& call : calls_outside_of_loops(plan)) {
        EXPECT_EQ(call.find("Slice"), std::string::npos) << direction << "\n" << to_text(plan);
        EXPECT_EQ(call.find("Concat"), std::string::npos) << direction << "\n" << to_text(plan);
      }
    }
}

// Who else reads the rows reads them upwards.
TEST(Placement, RowsThatAreReadBothWaysAreCopied) {
  GraphMaker m;
  const Value* rows = nullptr;
  Value* y = layer_of_rows(m, "reverse")[0];
  m.graph.add_output("y", y);
  ASSERT_TRUE(optimize(m.graph));
  for (Node* node : m.graph.nodes())
    if (node->op->name == "Loop") rows = node->outputs.back();
  ASSERT_NE(rows, nullptr);
  m.graph.add_output("z", m.node("Relu", {const_cast<Value*>(rows)}));
  ASSERT_TRUE(optimize(m.graph));
  const Plan plan = checked_plan(m);
  EXPECT_EQ(std::ranges::count_if(calls_outside_of_loops(plan),
                                  [](const std::string& call) { return call.find("Slice") != std::string::npos; }),
            1)
      << to_text(plan);
}

TEST(Plan, InputsThatAreLeftOut) {
  GraphMaker m;
  Value *x = m.input("x", {2, 3}), *most = m.input("most", {});
  m.graph.add_output("y", m.node("Clip", {x, nullptr, most}));
  checked_plan(m);
}

}  // namespace
}  // namespace fettle
