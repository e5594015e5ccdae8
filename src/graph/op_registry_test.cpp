#include "graph/op_registry.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "graph/evaluate.h"
#include "graph/op_util.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"

namespace fettle {
namespace {

using Tensors = Result<std::vector<te::Tensor>>;

/// x * |x| + c
Tensors signed_square(const Node& node, std::span<const te::Tensor> in) {
  const Expr c = float_imm(node.attrs.get_float("c", 0), in[0].dtype());
  return std::vector{te::compute(
      in[0].shape(), [&](const auto& i) { return in[0](i) * math("abs", {in[0](i)}) + c; }, "signed_square")};
}
OpDef definition(std::string_view name) {
  return {.name = name,
          .fusion = FusionKind::kBroadcast,
          .infer = ops::same_type,
          .compute = signed_square,
          .is_pointwise = true};
}

TEST(OpRegistry, OperatorsTakePartInEverything) {
  ASSERT_TRUE(register_op(definition("test.parts.SignedSquare")));
  GraphMaker m;
  Value* x = m.input("x", {2, 3, 4});
  // A reshape sinks behind it, as behind any pointwise operator, and the product before takes it along.
  Value* h = m.node("MatMul", {x, m.constant("w", {4, 5}, 0.3)});
  Value* flat = m.node("Reshape", {h}, with_ints("shape", {6, 5}));
  m.graph.add_output("y", m.node("test.parts.SignedSquare", {flat}));
  m.graph.sort();
  const ConstantTensor in = to_tensor(std::vector<double>(24, -0.75), kF32, {2, 3, 4}).value();
  const auto want = evaluate(m.graph, {{"x", in}}, interpreter_executor());
  ASSERT_TRUE(want) << want.error().to_string();
  EXPECT_NEAR(want->at("y").at(0), -0.9 * 0.9, 1e-5);
  ASSERT_TRUE(optimize(m.graph));
  Plan plan = make_plan(m.graph).value();
  assign_memory(plan, [](int) { return true; });
  ASSERT_EQ(plan.calls.size(), 1u) << to_text(plan);
  EXPECT_NE(plan.calls[0].name.find("MatMul_SignedSquare"), std::string::npos) << plan.calls[0].name;
  EXPECT_NEAR(run_plan(m.graph, plan, {{"x", in}}).at("y").at(29), -0.9 * 0.9, 1e-5);
}

TEST(OpRegistry, NamesStandForOneOperator) {
  const std::string name = "test.once.Op";
  const auto first = register_op(definition(name));
  ASSERT_TRUE(first);
  EXPECT_EQ(find_op("test.once.Op"), *first);
  EXPECT_EQ(register_op(definition("test.once.Op")).error().code, ErrorCode::E709);
  EXPECT_EQ(register_op(definition("Relu")).error().code, ErrorCode::E709);
  EXPECT_EQ(find_op("test.once.Other"), nullptr);
}

TEST(OpRegistry, DefinitionsThatContradictThemselves) {
  const auto refused = [](OpDef op) {
    const auto made = register_op(op);
    return !made && made.error().code == ErrorCode::E709;
  };
  for (const char* name : {"", ".Op", "test.", "test.3d", "test.a b", "test.a-b"})
    EXPECT_TRUE(refused(definition(name)));
  OpDef op = definition("test.bad.Op");
  op.compute = nullptr;
  EXPECT_TRUE(refused(op));
  op = definition("test.bad.Op");
  op.fusion = FusionKind::kReduction;  // and pointwise
  EXPECT_TRUE(refused(op));
  op = definition("test.bad.Op");
  op.image = ImageWork::kConvolution;  // of one input
  EXPECT_TRUE(refused(op));
  op = definition("test.bad.Op");
  op.max_inputs = 0;
  EXPECT_TRUE(refused(op));
  EXPECT_EQ(find_op("test.bad.Op"), nullptr);
}

// What it promises is held to: otherwise a pass would move it where it means something else.
TEST(OpRegistry, PointwiseOperatorsAreChecked) {
  OpDef op = definition("test.reversed.Op");
  op.compute = [](const Node&, std::span<const te::Tensor> in) -> Tensors {
    return std::vector{
        te::compute(in[0].shape(), [&](const auto& i) { return in[0](in[0].dim(0) - Expr(1) - i[0]); }, "reversed")};
  };
  ASSERT_TRUE(register_op(op));
  GraphMaker m;
  m.node("test.reversed.Op", {m.input("x", {4})});
  const auto func = node_func(*m.graph.nodes()[0]);
  ASSERT_FALSE(func);
  EXPECT_EQ(func.error().code, ErrorCode::E605);
  EXPECT_NE(func.error().message.find("pointwise"), std::string::npos);
}

TEST(OpRegistry, MeaningsHaveTheTypesOfTheirRules) {
  OpDef op = definition("test.longer.Op");
  op.infer = [](const Node& node) { return ops::one_type(ops::dtype_of(node, 0), {Dim(7)}); };
  ASSERT_TRUE(register_op(op));
  GraphMaker m;
  m.node("test.longer.Op", {m.input("x", {4})});
  EXPECT_EQ(node_func(*m.graph.nodes()[0]).error().code, ErrorCode::E605);
}

TEST(OpRegistry, FunctionsMayCapture) {
  const double factor = 3;
  OpFunctions functions;
  functions.infer = [](const Node& node) { return ops::same_type(node); };
  functions.compute = [factor](const Node&, std::span<const te::Tensor> in) -> Tensors {
    return std::vector{te::compute(
        in[0].shape(), [&](const auto& i) { return in[0](i) * float_imm(factor, in[0].dtype()); }, "scaled")};
  };
  ASSERT_TRUE(register_op({.name = "test.captured.Op", .infer = nullptr, .compute = nullptr}, std::move(functions)));
  GraphMaker m;
  m.graph.add_output("y", m.node("test.captured.Op", {m.input("x", {2})}));
  m.graph.sort();
  const ConstantTensor in = to_tensor(std::vector<double>{1, 2}, kF32, {2}).value();
  EXPECT_EQ(evaluate(m.graph, {{"x", in}}, interpreter_executor())->at("y").at(1), 6);
}

TEST(OpRegistry, ThreadsMayRegisterAndFind) {
  std::atomic<int> registered{0}, found{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        const std::string name = "test.threads.Op" + std::to_string(i);
        registered += register_op(definition(name)).has_value();
        found += find_op(name) != nullptr;
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(registered, 50);
  EXPECT_EQ(found, 200);
}

}  // namespace
}  // namespace fettle
