// Branches and loops: as the reference runs them, and as the plan of the optimised graph does.

#include "graph/control.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/plan.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

TensorType f32(Shape shape) { return {kF32, std::move(shape)}; }

Node* add(Graph& graph, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}) {
  return graph.add_node(find_op(op), std::string(op), std::move(inputs), std::move(attrs));
}

ConstantTensor numbers(const std::vector<double>& values) {
  return *to_tensor(values, kF32, {static_cast<int64_t>(values.size())});
}

// s = x; for i < limit (while sum(s) < 100, if asked for): s = s * 2 + exp(x); scanned: s + i
Graph loop_graph(std::optional<int64_t> limit, bool with_condition) {
  Graph graph("g");
  Value* x = graph.add_input("x", f32({3}));
  auto body = std::make_shared<Graph>("body");
  Value* i = body->add_input("i");
  Value* condition = body->add_input("condition");
  Value* s = body->add_input("s");
  Value* captured = body->add_input("captured");
  Value* doubled = add(*body, "Mul", {s, body->add_constant("two", scalar(2))})->output();
  Value* next = add(*body, "Add", {doubled, add(*body, "Exp", {captured})->output()})->output();
  Attrs to_float, all;
  to_float.set("to", int64_t{1});
  all.set("keepdims", int64_t{0});
  Value* row = add(*body, "Add", {next, add(*body, "Cast", {i}, to_float)->output()})->output();
  Value* sum = add(*body, "ReduceSum", {next}, all)->output();
  Value* goes_on =
      with_condition ? add(*body, "Less", {sum, body->add_constant("most", scalar(100))})->output() : condition;
  body->add_output("goes_on", goes_on);
  body->add_output("next", next);
  if (limit) body->add_output("row", row);
  body->sort();
  Attrs carried;
  carried.set("carried", int64_t{1});
  Value* most = limit ? graph.add_constant("limit", reshaped(int_list(std::vector<int64_t>{*limit}), {})) : nullptr;
  Node* loop = graph.add_node(find_op("Loop"), "loop", {most, nullptr, x, x}, std::move(carried), {}, limit ? 2 : 1);
  loop->bodies.push_back(std::move(body));
  graph.add_output("last", add(graph, "Neg", {loop->output()})->output());
  if (limit) graph.add_output("rows", loop->output(1));
  return graph;
}

// Both ways; the optimised graph and its plan must give the same.
std::map<std::string, ConstantTensor> run(Graph graph, const std::map<std::string, ConstantTensor>& inputs) {
  const auto optimised = optimize(graph);
  EXPECT_TRUE(optimised) << (optimised ? "" : optimised.error().to_string());
  const auto expected = evaluate(graph, inputs, interpreter_executor());
  EXPECT_TRUE(expected) << (expected ? "" : expected.error().to_string());
  auto plan = make_plan(graph);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
  assign_memory(*plan, [](int) { return true; });
  auto made = run_plan(graph, *plan, inputs);
  for (const auto& [name, tensor] : *expected)
    EXPECT_EQ(to_doubles(made.at(name)), to_doubles(tensor)) << name << "\n" << to_text(graph) << to_text(*plan);
  return made;
}

TEST(Control, LoopsCarryAndStack) {
  auto results = run(loop_graph(4, false), {{"x", numbers({0, 0, 0})}});
  EXPECT_EQ(to_doubles(results.at("last")), (std::vector<double>{-15, -15, -15}));
  EXPECT_EQ(to_doubles(results.at("rows")), (std::vector<double>{1, 1, 1, 4, 4, 4, 9, 9, 9, 18, 18, 18}));
}

TEST(Control, LoopsEndWhereTheirConditionIsFalse) {
  auto results = run(loop_graph(std::nullopt, true), {{"x", numbers({0, 0, 0})}});
  EXPECT_EQ(to_doubles(results.at("last")), (std::vector<double>{-63, -63, -63}));  // 3 * 31 < 100 <= 3 * 63
}

TEST(Control, WhatDoesNotDependOnALoopLeavesIt) {
  Graph graph = loop_graph(4, false);
  ASSERT_TRUE(optimize(graph));
  size_t inside = 0, outside = 0;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node* node : g.nodes())
      if (node->op->name == "Exp") ++(&g == &graph ? outside : inside);
  });
  EXPECT_EQ(outside, 1u) << to_text(graph);
  EXPECT_EQ(inside, 0u) << to_text(graph);
}

// y = c ? relu(x) : (x * w), of which one body returns what the other only reads
Graph branch_graph(bool constant_condition) {
  Graph graph("g");
  Value* c = constant_condition ? graph.add_constant("c", scalar(0, kBool)) : graph.add_input("c", {kBool, {}});
  Value* x = graph.add_input("x", f32({3}));
  std::vector<std::shared_ptr<Graph>> bodies;
  for (const bool then : {true, false}) {
    auto body = std::make_shared<Graph>(then ? "then" : "else");
    Value* taken = body->add_input("x");
    Value* w = body->add_constant("w", numbers({2, 3, 4}));
    Value* made = then ? add(*body, "Relu", {taken})->output() : add(*body, "Mul", {taken, w})->output();
    body->add_output("y", made);
    body->add_output("z", then ? taken : w);
    bodies.push_back(std::move(body));
  }
  Node* node = graph.add_node(find_op("If"), "if", {c, x}, {}, {"y", "z"});
  node->bodies = std::move(bodies);
  graph.add_output("y", node->output(0));
  graph.add_output("sum", add(graph, "Add", {node->output(0), node->output(1)})->output());
  return graph;
}

TEST(Control, BranchesRunOneOfTheirBodies) {
  const std::map<std::string, ConstantTensor> x = {{"x", numbers({-1, 1, 2})}};
  for (const bool c : {true, false}) {
    auto inputs = x;
    inputs.emplace("c", scalar(c, kBool));
    auto results = run(branch_graph(false), inputs);
    EXPECT_EQ(to_doubles(results.at("sum")), c ? (std::vector<double>{-1, 2, 4}) : (std::vector<double>{0, 6, 12}));
  }
  Graph known = branch_graph(true);
  ASSERT_TRUE(optimize(known));
  EXPECT_EQ(histogram(known).find("If"), std::string::npos) << to_text(known);
  run(branch_graph(true), x);
}

TEST(Control, ClonesHaveBodiesOfTheirOwn) {
  const Graph graph = loop_graph(4, true);
  Graph copy = graph.clone();
  EXPECT_EQ(to_text(copy), to_text(graph));
  const auto body_of = [](const Graph& g) {
    for (const Node* node : g.nodes())
      if (!node->bodies.empty()) return node->bodies[0];
    return std::shared_ptr<Graph>();
  };
  EXPECT_NE(body_of(copy), body_of(graph));
}

TEST(Control, WhatIterationsLeaveToEachOtherKeepsItsPlace) {
  Graph graph = loop_graph(std::nullopt, true);
  ASSERT_TRUE(optimize(graph));
  Plan plan = *make_plan(graph);
  assign_memory(plan, [](int) { return true; });
  for (const PlanStep& step : plan.steps) {
    if (step.kind != PlanStep::Kind::kLoop) continue;
    for (const PlanStep& inner : step.body) {
      const PlannedCall& call = plan.calls[static_cast<size_t>(inner.call)];
      const Storage& written = plan.storages[static_cast<size_t>(call.operands.back().storage)];
      if (copies_to_itself(plan, call) || written.kind != Storage::Kind::kArena || written.in_place_of >= 0) continue;
      for (int carried : step.kept) {
        const Storage& place = plan.storages[static_cast<size_t>(carried)];
        if (place.kind != Storage::Kind::kArena) continue;
        EXPECT_TRUE((written.offset_bytes + written.size_bytes - place.offset_bytes).value() <= 0 ||
                    (place.offset_bytes + place.size_bytes - written.offset_bytes).value() <= 0)
            << to_text(plan);
      }
    }
  }
}

}  // namespace
}  // namespace fettle
