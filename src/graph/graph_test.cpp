#include "graph/graph.h"

#include <gtest/gtest.h>

#include "graph/evaluate.h"
#include "graph/op.h"

namespace fettle {
namespace {

TensorType f32(Shape shape) { return {kF32, std::move(shape)}; }

TEST(Dim, NumbersAndFormulas) {
  EXPECT_EQ(floordiv(Dim(7), Dim(2)), Dim(3));
  const Dim h = Dim::symbol("H", 1, 100);
  EXPECT_EQ(h + 2 - 3 + 1, h);  // numbers are added up
  EXPECT_EQ((h + 1).to_string(), "H + 1");
  EXPECT_EQ(floordiv(h - 1, 2).to_string(), "(H - 1) // 2");
  EXPECT_EQ(h * 3, Dim(3) * h);
  EXPECT_EQ(floordiv(h + 1, 2).max(), 50);
  EXPECT_EQ(h - h, Dim(0));
  EXPECT_EQ(max(h, 0), h);
  EXPECT_EQ((Dim(kMaxDim) * Dim(kMaxDim)).value(), kMaxDim);  // saturates
}

TEST(Dim, EqualFormulasAreEqual) {
  const Dim a = Dim::symbol("A"), b = Dim::symbol("B");
  EXPECT_EQ(a * b, b * a);
  EXPECT_EQ(a + b, b + a);
  EXPECT_FALSE(a == b);
}

TEST(ConstantTensor, ElementsOfEveryKind) {
  for (const DType dtype : {kF32, kF64, kF16, kBF16, kI8, kI16, kI32, kI64, kU8, kU16, kU32, kU64})
    EXPECT_EQ(filled(3, dtype, {2, 2})->at(3), 3) << dtype.to_string();
  EXPECT_EQ(filled(-5, kI16, {1})->int_at(0), -5);
  EXPECT_EQ(filled(7, kBool, {1})->int_at(0), 1);
  EXPECT_EQ(to_ints(int_list(std::vector<int64_t>{4, -1})), (std::vector<int64_t>{4, -1}));
}

TEST(ConstantTensor, RefusesWhatIsTooLarge) {
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{1 << 20, 1 << 20}).error().code, ErrorCode::E608);
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{-1}).error().code, ErrorCode::E608);
  EXPECT_EQ(checked_bytes(kF32, std::vector<int64_t>{int64_t{1} << 62, 0}).error().code, ErrorCode::E608);
  EXPECT_EQ(*checked_bytes(kF32, std::vector<int64_t>{1 << 30, 0}), 0);
}

TEST(Graph, EditsKeepUsersAndOrder) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* first = g.add_node(find_op("Relu"), "first", {x});
  Node* second = g.add_node(find_op("Add"), "second", {first->output(), first->output()});
  g.add_output("y", second->output());
  EXPECT_EQ(first->output()->users.size(), 2u);
  // A node added later that comes earlier.
  Node* between = g.add_node(find_op("Exp"), "between", {x});
  g.set_input(second, 1, between->output());
  g.sort();
  EXPECT_EQ(g.nodes().back(), second);
  ASSERT_TRUE(validate(g, false));
  // The graph's output keeps its name when its node goes.
  g.replace_node(second, first->output());
  g.sort();
  EXPECT_EQ(g.outputs()[0].name, "y");
  EXPECT_EQ(g.outputs()[0].value, first->output());
  EXPECT_EQ(g.nodes().size(), 2u);
  ASSERT_TRUE(validate(g, false));
}

TEST(Graph, NamesAreUnique) {
  Graph g("g");
  EXPECT_EQ(g.add_input("x", f32({}))->name, "x");
  EXPECT_EQ(g.add_input("x", f32({}))->name, "x.1");
}

TEST(Graph, CloneIsIndependent) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* add = g.add_node(find_op("Add"), "add", {x, g.add_constant("c", scalar(2))});
  add->outputs[0]->type = f32({2});
  g.add_output("y", add->output());
  Graph copy = g.clone();
  EXPECT_EQ(to_text(copy), to_text(g));
  copy.nodes()[0]->attrs.set("note", int64_t{1});
  EXPECT_FALSE(g.nodes()[0]->attrs.has("note"));
  ASSERT_TRUE(validate(copy, true));
}

TEST(Graph, ValidateFindsWrongTypesAndLinks) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  relu->outputs[0]->type = f32({3});
  g.add_output("y", relu->output());
  EXPECT_EQ(validate(g, true).error().code, ErrorCode::E605);
  relu->outputs[0]->type = f32({2});
  EXPECT_TRUE(validate(g, true));
  x->users.clear();
  EXPECT_EQ(validate(g, false).error().code, ErrorCode::E605);
}

TEST(Op, FusionKindDependsOnShapes) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2, 3}));
  Node* same = g.add_node(find_op("Add"), "same", {x, x});
  same->outputs[0]->type = f32({2, 3});
  Node* wide = g.add_node(find_op("Add"), "wide", {x, g.add_input("row", f32({3}))});
  wide->outputs[0]->type = f32({2, 3});
  EXPECT_EQ(fusion_kind(*same), FusionKind::kElementwise);
  EXPECT_EQ(fusion_kind(*wide), FusionKind::kBroadcast);
}

TEST(Op, MeaningNeedsStaticShapes) {
  Graph g("g");
  Value* x = g.add_input("x", f32({Dim::symbol("N")}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  relu->outputs[0]->type = x->type;
  EXPECT_EQ(node_func(*relu).error().code, ErrorCode::E604);
}

TEST(Op, EveryOperatorHasItsRuleAndMeaning) {
  size_t count = 0;
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops) {
      ++count;
      EXPECT_TRUE(op.infer && op.meaning) << op.name;
      EXPECT_EQ(find_op(op.name), &op);
      for (const ParamInput& param : op.params) EXPECT_LT(param.index, op.max_inputs) << op.name;
    }
  EXPECT_GT(count, 100u);
}

TEST(Evaluate, ChecksItsInputs) {
  Graph g("g");
  Value* x = g.add_input("x", f32({2}));
  Node* relu = g.add_node(find_op("Relu"), "relu", {x});
  relu->outputs[0]->type = x->type;
  g.add_output("y", relu->output());
  const auto run = interpreter_executor();
  EXPECT_EQ(evaluate(g, {}, run).error().code, ErrorCode::E704);
  EXPECT_EQ(evaluate(g, {{"x", *filled(1, kF32, {3})}}, run).error().code, ErrorCode::E705);
  EXPECT_EQ(evaluate(g, {{"x", *filled(1, kF32, {2})}, {"z", scalar(0)}}, run).error().code, ErrorCode::E704);
  const auto out = evaluate(g, {{"x", *filled(-1, kF32, {2})}}, run);
  ASSERT_TRUE(out);
  EXPECT_EQ(out->at("y").at(1), 0);
}

}  // namespace
}  // namespace fettle
