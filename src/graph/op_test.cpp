// What operators' traits promise, asked of what they compute.

#include "graph/op.h"

#include <gtest/gtest.h>

#include <set>

#include "graph/passes/passes.h"
#include "graph/plan/plan.h"
#include "graph/testing.h"
#include "ir/compare.h"
#include "ir/visit.h"

namespace fettle {
namespace {

Attrs to_f32() {
  Attrs attrs;
  attrs.set("to", int64_t{1});  // for Cast
  return attrs;
}

/// A node of this operator over values of shape [2, 3], of types that it takes; null where there are none.
Node* sample(GraphMaker& m, const OpDef& op) {
  for (const DType first : {kF32, kBool, kI32})
    for (const DType rest : {kF32, kBool, kI32}) {
      std::vector<Value*> inputs;
      for (int i = 0; i < std::max(op.min_inputs, op.max_inputs < 0 ? 3 : 1); ++i)
        inputs.push_back(m.graph.add_input("x", {i == 0 ? first : rest, {2, 3}}));
      Node* node = m.graph.add_node(&op, "y", inputs, to_f32());
      const auto types = op.infer(*node);
      if (!types) continue;
      node->outputs[0]->type = types->front();
      if (node_func(*node)) return node;
    }
  return nullptr;
}

/// Whether element i of the output reads element i of the inputs only.
bool reads_in_place(const Node& node) {
  const auto func = node_func(node);
  if (!func) return false;
  bool same = true;
  walk((*func)->body,
       [&](const Stmt& s) {
         if (const auto* write = s.as<StoreNode>())
           walk(write->value, [&](const Expr& e) {
             if (const auto* read = e.as<LoadNode>())
               for (size_t d = 0; d < read->indices.size(); ++d)
                 same = same && d < write->indices.size() && structural_equal(read->indices[d], write->indices[d]);
             return same;
           });
         return same;
       },
       [](const Expr&) { return true; });
  return same;
}

TEST(OpTraits, PointwiseOperatorsReadInPlace) {
  std::set<std::string_view> others;
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops) {
      const bool maps = op.fusion == FusionKind::kElementwise || op.fusion == FusionKind::kBroadcast;
      if (op.is_pointwise) {
        EXPECT_TRUE(maps) << op.name;
        GraphMaker m;
        Node* node = sample(m, op);
        ASSERT_TRUE(node) << op.name;
        EXPECT_TRUE(reads_in_place(*node)) << op.name;
      } else if (maps) {
        others.insert(op.name);
      }
    }
  EXPECT_EQ(others,
            (std::set<std::string_view>{"BatchNormalization", "ByteLookup", "CastLike", "CausalMask",
                                        "DequantizeLinear", "Dropout", "OneHot", "QuantizeLinear", "SameTypeAs",
                                        "fettle.MapProgram"}));
}

// Types that an operator does not compute with are told, by its rule or by its program.
TEST(Op, TypesWithoutAMeaning) {
  int refused = 0;
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops)
      for (const DType dtype : {kF32, kF16, kF64, kBool, kI32, kU8, kI64}) {
        if (!op.is_pointwise) continue;
        GraphMaker m;
        std::vector<Value*> inputs;
        for (int i = 0; i < std::max(op.min_inputs, 1); ++i)
          inputs.push_back(m.graph.add_input("x", {i == 0 && op.name == "Where" ? kBool : dtype, {2, 3}}));
        Node* node = m.graph.add_node(&op, "y", inputs, to_f32());
        const auto types = op.infer(*node);
        if (!types) continue;
        node->outputs[0]->type = types->front();
        const auto func = node_func(*node);
        EXPECT_TRUE(func || func.error().code == ErrorCode::E605) << op.name << " " << dtype.to_string();
        m.graph.add_output("z", node->output());
        m.graph.sort();
        EXPECT_EQ(make_plan(m.graph).has_value(), func.has_value()) << op.name << " " << dtype.to_string();
        refused += !func;
      }
  EXPECT_GT(refused, 0);
}

// An axis is asked for wherever one of the parameters is a list.
TEST(Op, ZeroPointsOfANumberThatIsQuantized) {
  GraphMaker m;
  const std::vector<Value*> inputs{m.graph.add_input("x", {kU8, {}}), m.graph.add_input("scale", {kF32, {1}}),
                                   m.graph.add_input("zero", {kU8, {2}})};
  m.graph.add_output("y", m.graph.add_node(find_op("DequantizeLinear"), "y", inputs)->output());
  EXPECT_FALSE(passes::infer_shapes(m.graph, {}));
}

// What an operator reads of the end of a shape that has none, only sanitizers would tell: so it must be refused.
TEST(Op, NumbersWhereDimsAreNeeded) {
  for (const auto& [name, dtype] : std::vector<std::pair<std::string, DType>>{
           {"MatMulInteger", kU8}, {"com.microsoft.BiasSplitGelu", kF32}, {"com.microsoft.MultiHeadAttention", kF32}}) {
    GraphMaker m;
    std::vector<Value*> inputs;
    for (int i = 0; i < find_op(name)->min_inputs; ++i) inputs.push_back(m.graph.add_input("x", {dtype, {}}));
    m.graph.add_output("y", m.graph.add_node(find_op(name), "y", inputs)->output());
    const auto typed = passes::infer_shapes(m.graph, {});
    ASSERT_FALSE(typed) << name;
    EXPECT_EQ(typed.error().code, ErrorCode::E605) << name;
  }
}

// Elements that a parameter does not have would be read.
TEST(Op, ParametersOfOtherShapes) {
  const Attrs groups{{{"num_groups", int64_t{2}}}}, pads{{{"pads", std::vector<int64_t>{1, 1}}}};
  struct Case {
    std::string name;
    std::vector<Shape> shapes;
    Attrs attrs;
  };
  for (const auto& [name, shapes, attrs] : std::vector<Case>{{"LayerNormalization", {{2, 3, 8}, {4}}},
                                                             {"LayerNormalization", {{2, 3, 8}, {1, 1, 1, 8}}},
                                                             {"LayerNormalization", {{2, 3, 8}, {8}, {2, 1}}},
                                                             {"RMSNormalization", {{2, 1}, {3}}},
                                                             {"GroupNormalization", {{2, 4, 8}, {2}, {4}}, groups},
                                                             {"GroupNormalization", {{2, 4, 8}, {4}, {1, 4}}, groups},
                                                             {"GroupNormalization", {{2, 4, 8}, {}, {4}}, groups},
                                                             {"PRelu", {{3, 1}, {3, 5}}},
                                                             {"Gemm", {{1, 4}, {4, 5}, {3, 5}}},
                                                             {"Clip", {{4}, {0}}},
                                                             {"Clip", {{4}, {}, {2}}},
                                                             {"Pad", {{4}, {2}, {0}}, pads},
                                                             {"Range", {{0}, {}, {}}}}) {
    GraphMaker m;
    std::vector<Value*> inputs;
    for (const Shape& shape : shapes) inputs.push_back(m.graph.add_input("x", {kF32, shape}));
    m.graph.add_output("y", m.graph.add_node(find_op(name), "y", inputs, attrs)->output());
    const auto typed = passes::infer_shapes(m.graph, {});
    ASSERT_FALSE(typed) << name;
    EXPECT_EQ(typed.error().code, ErrorCode::E605) << name;
  }
}

TEST(OpTraits, CommutativeOperatorsTakeTwoInputs) {
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops)
      EXPECT_TRUE(!op.is_commutative || (op.is_pointwise && (op.max_inputs == 2 || op.max_inputs < 0))) << op.name;
}

TEST(OpTraits, ReshapesAreViewsThatMove) {
  for (const OpFamily* family : op_families())
    for (const OpDef& op : family->ops) {
      EXPECT_TRUE(!op.is_reshape || (op.view && op.view->input)) << op.name;
      EXPECT_TRUE(!(op.view || op.is_concatenation) || op.work == ElementWork::kMoves) << op.name;
      EXPECT_TRUE(!op.weights || op.max_inputs == (op.weights->takes_bias ? 3 : 2)) << op.name;
    }
}

}  // namespace
}  // namespace fettle
