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

// Whether the loop is one kernel: no step of the plan is a loop.
bool is_one_kernel(Graph graph) {
  EXPECT_TRUE(optimize(graph));
  const auto plan = make_plan(graph);
  return plan &&
         std::ranges::none_of(plan->steps, [](const PlanStep& step) { return step.kind == PlanStep::Kind::kLoop; });
}

// s = s * k + x[i]; k = k + 1 (of another shape); t = s > 1; scanned: s, i
Graph small_loop(const Shape& shape, const Dim& count, std::string_view extra = {}, int64_t more = 0) {
  Graph graph("g");
  Shape rows = shape;
  rows.insert(rows.begin(), count);
  Value* x = graph.add_input("x", f32(rows));
  Value* s0 = graph.add_input("s0", f32(shape));
  auto body = std::make_shared<Graph>("body");
  Value* i = body->add_input("i");
  Value* condition = body->add_input("condition");
  Value *s = body->add_input("s"), *k = body->add_input("k"), *t = body->add_input("t");
  Value* all = body->add_input("all");
  Value* one = body->add_constant("one", scalar(1));
  Attrs first;
  first.set("axis", int64_t{0});
  Value* row = add(*body, "Gather", {all, i}, first)->output();
  Value* sum = add(*body, "Add", {add(*body, "Mul", {s, k})->output(), row})->output();
  Value* next = add(*body, "Where", {t, add(*body, "Neg", {sum})->output(), sum})->output();
  if (!extra.empty()) next = add(*body, extra, {next})->output();
  body->add_output("goes_on", condition);
  body->add_output("next", next);
  body->add_output("k1", add(*body, "Add", {k, one})->output());
  body->add_output("t1", add(*body, "Greater", {next, one})->output());
  body->add_output("row", next);
  body->add_output("number", add(*body, "Add", {i, i})->output());
  body->sort();
  Attrs carried, front;
  carried.set("carried", int64_t{3});
  front.set("start", int64_t{0});
  front.set("end", int64_t{1});
  Value* number = add(graph, "Shape", {x}, front)->output();
  if (more > 0)
    number = add(graph, "Add", {number, graph.add_constant("more", int_list(std::vector<int64_t>{more}))})->output();
  Node* loop = graph.add_node(
      find_op("Loop"), "loop",
      {number, nullptr, s0, graph.add_constant("k0", numbers({-1})), add(graph, "Less", {s0, s0})->output(), x},
      std::move(carried), {"last", "k", "t", "rows", "numbers"}, 5);
  loop->bodies.push_back(std::move(body));
  for (const Value* output : loop->outputs) graph.add_output(output->name, const_cast<Value*>(output));
  return graph;
}

ConstantTensor counted(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  std::vector<double> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i * 5 % 7 - 3));
  return *to_tensor(values, kF32, shape);
}

TEST(LoopKernel, SmallLoopsOfElementwiseWorkAreOneKernel) {
  for (const int64_t count : {0, 1, 2, 5}) {
    EXPECT_TRUE(is_one_kernel(small_loop({2, 3}, count)));
    auto results = run(small_loop({2, 3}, count), {{"x", counted({count, 2, 3})}, {"s0", counted({2, 3})}});
    EXPECT_EQ(to_doubles(results.at("k")), (std::vector<double>{static_cast<double>(count - 1)}));
    if (count > 0) continue;
    EXPECT_EQ(to_doubles(results.at("last")), to_doubles(counted({2, 3})));
  }
}

TEST(LoopKernel, SizesMayBeOpen) {
  const Dim count = Dim::symbol("T", 0, 100), n = Dim::symbol("N", 1, 100);
  EXPECT_TRUE(is_one_kernel(small_loop({n, 3}, count)));
  Graph open = small_loop({n, 3}, count);
  ASSERT_TRUE(optimize(open));
  Plan plan = *make_plan(open);
  assign_memory(plan, [](int) { return true; });
  for (const int64_t t : {0, 1, 6}) {
    const std::map<std::string, ConstantTensor> inputs = {{"x", counted({t, 4, 3})}, {"s0", counted({4, 3})}};
    auto made = run_plan(open, plan, inputs);
    for (const auto& [name, tensor] : run(small_loop({4, 3}, t), inputs))
      EXPECT_EQ(to_doubles(made.at(name)), to_doubles(tensor)) << name << t << to_text(plan);
  }
}

TEST(LoopKernel, WhatIsNotElementwiseIsSteps) {
  EXPECT_FALSE(is_one_kernel(small_loop({2, 3}, 5, "Softmax")));
  run(small_loop({2, 3}, 5, "Softmax"), {{"x", counted({5, 2, 3})}, {"s0", counted({2, 3})}});
  // What is carried is more than a first-level cache holds.
  EXPECT_FALSE(is_one_kernel(small_loop({20000, 3}, 5)));
  EXPECT_FALSE(is_one_kernel(loop_graph(std::nullopt, true)));
}

size_t count_of(const std::string& text, std::string_view part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// What iterations read one after the other is no copy, if there is a row for each.
TEST(Control, RowsAreWindows) {
  const std::map<std::string, ConstantTensor> inputs = {{"x", counted({5, 2, 3})}, {"s0", counted({2, 3})}};
  for (const int64_t more : {0, 2}) {
    Graph graph = small_loop({2, 3}, 5, "Softmax", more);
    ASSERT_TRUE(optimize(graph));
    const std::string text = to_text(*make_plan(graph));
    EXPECT_EQ(count_of(text, ": Gather"), more > 0 ? 1u : 0u) << text;
    EXPECT_EQ(count_of(text, "in0+24*i0"), more > 0 ? 0u : 1u) << text;
    run(small_loop({2, 3}, 5, "Softmax", more), inputs);
  }
}

// Elementwise groups of one shape are one kernel, but not where something else lies between them.
TEST(Control, ElementwiseGroupsOfABodyAreJoined) {
  Graph body("body");
  Value *i = body.add_input("i", {kI64, {}}), *c = body.add_input("c", f32({2, 3}));
  Value* p = add(body, "Mul", {c, c})->output();
  Value* q = add(body, "Tanh", {p})->output();
  Value* shares = add(body, "Softmax", {q})->output();
  for (Value* output : {p, q, shares, add(body, "Add", {shares, p})->output(), add(body, "Exp", {c})->output()})
    body.add_output("y", output);
  ASSERT_TRUE(optimize(body));
  const auto names = [&](const Iterations& iterations) {
    std::string list;
    for (const Group& group : partition(body, {}, iterations)) list += group.name() + " ";
    return list;
  };
  EXPECT_EQ(names({i, 5}), "Mul_Tanh_Exp Softmax Add ");
  EXPECT_EQ(names({}), "Mul_Tanh_Exp Softmax Add ") << "they read the same values";
}

// Without a common value, groups are joined where calls take longer than their work: small ones in a loop.
TEST(Control, ElementwiseGroupsWithoutACommonValueAreJoinedInLoops) {
  Graph body("body");
  Value* i = body.add_input("i", {kI64, {}});
  for (const char* name : {"a", "b"})
    body.add_output("y", add(body, "Exp", {body.add_input(name, f32({2, 3}))})->output());
  ASSERT_TRUE(optimize(body));
  EXPECT_EQ(partition(body, {}, {i, 5}).size(), 1u);
  EXPECT_EQ(partition(body).size(), 2u);
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

// Carries a' = concat(a, 2x, i), which only grows; b' = concat(x, b), which moves; c' = concat(c, a).
Graph appending_graph(bool grows_alone) {
  Graph graph("g");
  Value* x = graph.add_input("x", f32({2}));
  auto body = std::make_shared<Graph>("body");
  Value* i = body->add_input("i");
  Value* condition = body->add_input("condition");
  std::vector<Value*> carried;
  for (const char* name : {"a", "b", "c"})
    if (carried.empty() || !grows_alone) carried.push_back(body->add_input(name));
  Value* row = body->add_input("row");
  const auto concat = [&](std::vector<Value*> parts) {
    return add(*body, "Concat", std::move(parts), {{"axis", int64_t{0}}})->output();
  };
  Value* number = add(*body, "Cast", {i}, {{"to", int64_t{1}}})->output();
  number = add(*body, "Unsqueeze", {number, body->add_constant("first", int_list(std::vector<int64_t>{0}))})->output();
  Value* doubled = add(*body, "Mul", {row, body->add_constant("two", scalar(2))})->output();
  body->add_output("condition", condition);
  body->add_output("a", concat({concat({carried[0], doubled}), number}));
  if (!grows_alone) {
    body->add_output("b", concat({row, carried[1]}));
    body->add_output("c", concat({carried[2], carried[0]}));
  }
  body->sort();
  Value* limit = graph.add_input("limit", {kI64, {}});
  std::vector<Value*> inputs{limit, nullptr};
  inputs.insert(inputs.end(), carried.size() + 1, x);
  Node* loop = graph.add_node(find_op("Loop"), "loop", std::move(inputs),
                              {{"carried", static_cast<int64_t>(carried.size())}}, {}, carried.size());
  loop->bodies.push_back(std::move(body));
  for (size_t k = 0; k < carried.size(); ++k) graph.add_output(carried[k]->name, loop->output(k));
  return graph;
}

TEST(Control, WhatIsPutBehindACarriedValueMovesNothing) {
  Graph graph = appending_graph(false);
  ASSERT_TRUE(optimize(graph));
  Plan plan = *make_plan(graph);
  assign_memory(plan, [](int) { return true; });
  for (const int64_t limit : {0, 1, 2, 5}) {
    std::vector<double> a{3, 5}, b = a, c = a;
    for (int64_t i = 0; i < limit; ++i) {
      c.insert(c.end(), a.begin(), a.end());
      a.insert(a.end(), {6, 10, static_cast<double>(i)});
      b.insert(b.begin(), {3, 5});
    }
    auto results =
        PlanRunner(graph, plan, {{"x", numbers({3, 5})}, {"limit", scalar(static_cast<double>(limit), kI64)}}).run();
    EXPECT_EQ(to_doubles(results.at("a")), a) << limit;
    EXPECT_EQ(to_doubles(results.at("b")), b) << limit;
    EXPECT_EQ(to_doubles(results.at("c")), c) << limit;
  }

  // Each iteration's work is of one size, however many there have been.
  Graph alone = appending_graph(true);
  ASSERT_TRUE(optimize(alone));
  const Plan grows = *make_plan(alone);
  const auto loop = std::ranges::find(grows.steps, PlanStep::Kind::kLoop, &PlanStep::kind);
  ASSERT_NE(loop, grows.steps.end());
  int copies = 0;
  for (const PlanStep& step : loop->body) {
    if (step.kind != PlanStep::Kind::kCall) continue;
    const PlannedCall& call = grows.calls[static_cast<size_t>(step.call)];
    if (call.name.ends_with(": Sizes")) continue;
    EXPECT_TRUE(call.sizes.empty()) << to_text(grows);
    ++copies;
  }
  EXPECT_GT(copies, 0);
}

}  // namespace
}  // namespace fettle
