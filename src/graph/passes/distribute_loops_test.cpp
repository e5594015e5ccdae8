// Rows that no iteration reads are computed for all iterations at once.

#include <gtest/gtest.h>

#include "graph/control.h"
#include "graph/evaluate.h"
#include "graph/loop_kernel.h"
#include "graph/op.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

using Row = std::function<Value*(Graph& body, Value* s, Value* x, Value* i, Value* w)>;

Value* add(Graph& graph, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {}) {
  return graph.add_node(find_op(op), std::string(op), std::move(inputs), std::move(attrs))->output();
}
Attrs along(std::vector<int64_t> axes, int64_t keepdims = 0) {
  return {{"axes", std::move(axes)}, {"keepdims", keepdims}};
}

// s = s0[2, 3]; for i < 5: s = next(s * 0.5 + x[i]); scanned: row(s before, x[i], i, w[3, 4])
Graph loop_of(const Row& row, std::string_view next = {}) {
  Graph graph("g");
  Value* x = graph.add_input("x", {kF32, {5, 2, 3}});
  Value* s0 = graph.add_input("s0", {kF32, {2, 3}});
  Value* w = graph.add_input("w", {kF32, {3, 4}});
  auto body = std::make_shared<Graph>("body");
  Value *i = body->add_input("i"), *condition = body->add_input("condition"), *s = body->add_input("s");
  Value *all = body->add_input("all"), *weights = body->add_input("weights");
  Value* taken = add(*body, "Gather", {all, i}, {{"axis", int64_t{0}}});
  Value* sum = add(*body, "Add", {add(*body, "Mul", {s, body->add_constant("half", scalar(0.5))}), taken});
  if (!next.empty()) sum = add(*body, next, {sum});
  body->add_output("goes_on", condition);
  body->add_output("s", sum);
  body->add_output("row", row(*body, s, taken, i, weights));
  body->sort();
  Value* limit = graph.add_constant("limit", reshaped(int_list(std::vector<int64_t>{5}), {}));
  Node* loop = graph.add_node(find_op("Loop"), "loop", {limit, nullptr, s0, x, w}, {{"carried", int64_t{1}}},
                              {"last", "rows"}, 2);
  loop->bodies.push_back(std::move(body));
  for (const Value* output : loop->outputs) graph.add_output(output->name, const_cast<Value*>(output));
  return graph;
}

ConstantTensor counted(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<double>(i * 5 % 7 - 3));
  return *to_tensor(values, kF32, shape);
}

// The optimised graph, whose plan gives what the loop as it was gives.
Graph distributed(const Row& row, std::string_view next = {}) {
  const std::map<std::string, ConstantTensor> inputs = {
      {"x", counted({5, 2, 3})}, {"s0", counted({2, 3})}, {"w", counted({3, 4})}};
  Graph whole = loop_of(row, next), parts = loop_of(row, next);
  EXPECT_TRUE(optimize(whole, {.without = {"distribute_loops"}}));
  const auto expected = evaluate(whole, inputs, interpreter_executor());
  EXPECT_TRUE(expected) << (expected ? "" : expected.error().to_string());
  auto plan = optimised_plan(parts);
  EXPECT_TRUE(plan) << (plan ? "" : plan.error().to_string());
  auto made = run_plan(parts, *plan, inputs);
  for (const auto& [name, tensor] : *expected) {
    EXPECT_EQ(made.at(name).shape, tensor.shape) << name << to_text(parts);
    const std::vector<double> a = to_doubles(made.at(name)), b = to_doubles(tensor);
    for (size_t k = 0; k < std::min(a.size(), b.size()); ++k) EXPECT_NEAR(a[k], b[k], 1e-5) << name << to_text(parts);
  }
  return parts;
}

// How many nodes of an operator lie outside of bodies.
int64_t count_outside(const Graph& graph, std::string_view op) {
  return std::ranges::count_if(graph.nodes(), [&](const Node* node) { return node->op->name == op; });
}

TEST(DistributeLoops, WhatIsLeftMayBeOneKernel) {
  const Graph graph = distributed(
      [](Graph& body, Value* s, Value*, Value*, Value*) { return add(body, "ReduceSum", {s}, along({0, 1})); });
  EXPECT_EQ(count_outside(graph, "ReduceSum"), 1) << to_text(graph);
  EXPECT_TRUE(std::ranges::any_of(graph.nodes(), [](const Node* node) { return is_loop_kernel(*node); }))
      << to_text(graph);
}

TEST(DistributeLoops, OneKernelStaysAsItIs) {
  const Graph graph = distributed([](Graph& body, Value* s, Value*, Value*, Value*) { return add(body, "Exp", {s}); });
  EXPECT_EQ(count_outside(graph, "Exp"), 0) << to_text(graph);
}

TEST(DistributeLoops, OperatorsHaveFormsWithRows) {
  const std::vector<std::pair<std::string_view, Row>> rows = {
      {"MatMul", [](Graph& b, Value* s, Value*, Value*, Value* w) { return add(b, "MatMul", {s, w}); }},
      {"MatMul",
       [](Graph& b, Value* s, Value* x, Value*, Value*) {
         return add(b, "MatMul", {s, add(b, "Transpose", {x}, {{"perm", std::vector<int64_t>{1, 0}}})});
       }},
      {"Softmax",
       [](Graph& b, Value* s, Value*, Value*, Value*) { return add(b, "Softmax", {s}, {{"axis", int64_t{0}}}); }},
      {"ArgMax", [](Graph& b, Value* s, Value*, Value*,
                    Value*) { return add(b, "ArgMax", {s}, {{"axis", int64_t{-1}}, {"keepdims", int64_t{0}}}); }},
      {"ReduceMax",
       [](Graph& b, Value* s, Value* x, Value*, Value*) {
         return add(b, "Sub", {s, add(b, "ReduceMax", {add(b, "Mul", {s, x})}, along({1}, 1))});
       }},
      // A row of fewer dims than what it meets.
      {"ReduceSum",
       [](Graph& b, Value* s, Value*, Value*, Value* w) {
         Value* list = add(b, "ReduceSum", {s}, along({0}));
         Value* wide = add(b, "Transpose", {w}, {{"perm", std::vector<int64_t>{1, 0}}});
         return add(b, "Mul", {wide, list});
       }},
      {"Gather",
       [](Graph& b, Value* s, Value*, Value*, Value*) {
         Value* places = b.add_constant("places", int_list(std::vector<int64_t>{2, 0}));
         return add(b, "Gather", {s, places}, {{"axis", int64_t{1}}});
       }},
      {"Mul", [](Graph& b, Value* s, Value*, Value* i,
                 Value*) { return add(b, "Mul", {s, add(b, "Cast", {i}, {{"to", int64_t{1}}})}); }},
  };
  for (const auto& [op, row] : rows) {
    const Graph graph = distributed(row, "Softmax");
    EXPECT_GE(count_outside(graph, op), 1) << op << to_text(graph);
    EXPECT_EQ(count_outside(graph, "Loop"), 1) << op << to_text(graph);
  }
}

TEST(DistributeLoops, WhatWouldTakeMuchMemoryStays) {
  // Of each row 2 * 3 * 30,000 products, of which the sum is one number.
  const Graph graph = distributed([](Graph& body, Value* s, Value*, Value*, Value*) {
    Value* many = body.add_constant("many", *filled(1, kF32, {30'000, 1, 1}));
    return add(body, "ReduceSum", {add(body, "Mul", {s, many})}, along({0, 1, 2}));
  });
  EXPECT_EQ(count_outside(graph, "ReduceSum"), 0) << to_text(graph);
}

TEST(DistributeLoops, WhatIterationsNeedStays) {
  const Graph graph = distributed([](Graph&, Value* s, Value*, Value*, Value*) { return s; }, "Softmax");
  EXPECT_EQ(count_outside(graph, "Softmax"), 0) << to_text(graph);
}

}  // namespace
}  // namespace fettle
