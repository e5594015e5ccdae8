#include "graph/passes/pattern.h"

#include "graph/passes/testing.h"

namespace fettle {
namespace {

using namespace passes;

class PatternTest : public PassFixture {
 protected:
  std::optional<Match> found(const Pattern& pattern, Value* value) { return match(g, pattern, value->producer); }
  void infer() { ASSERT_TRUE(passes::infer_shapes(g, {})); }
};

TEST_F(PatternTest, NamesStandForOneValue) {
  Value *a = input("a", {4}), *b = input("b", {4});
  Value* gated = op("Mul", {op("Sigmoid", {a}), a});
  Value* other = op("Mul", {op("Sigmoid", {a}), b});
  const Pattern swish = node("Mul", {node("Sigmoid", {any("x")}), any("x")});
  const auto m = found(swish, gated);
  ASSERT_TRUE(m);
  EXPECT_EQ((*m)["x"], a);
  EXPECT_EQ(m->root(), gated->producer);
  EXPECT_EQ((*m)["y"], nullptr);
  EXPECT_FALSE(found(swish, other));
}

// By the operator's trait, and by what an inner choice turns out to be.
TEST_F(PatternTest, CommutativeInputsMatchInEitherOrder) {
  Value *a = input("a", {4}), *b = input("b", {4});
  const Pattern sum = node("Add", {any("x"), node("Neg", {any("y")})});
  const auto m = found(sum, op("Add", {op("Neg", {a}), b}));
  ASSERT_TRUE(m);
  EXPECT_EQ((*m)["x"], b);
  EXPECT_FALSE(found(node("Sub", {any("x"), node("Neg", {any("y")})}), op("Sub", {op("Neg", {a}), b})));
  // The first order of the inner sum fits by itself, but not with what follows.
  const Pattern deep = node("Mul", {node("Add", {any("x"), any("y")}), node("Neg", {any("x")})});
  const auto again = found(deep, op("Mul", {op("Add", {a, b}), op("Neg", {b})}));
  ASSERT_TRUE(again);
  EXPECT_EQ((*again)["x"], b);
  EXPECT_EQ((*again)["y"], a);
}

TEST_F(PatternTest, Numbers) {
  Value* x = input("x", {4});
  Value* y = op("Mul", {number(0.3333333), x});
  EXPECT_TRUE(found(node("Mul", {any("x"), passes::number(1.0 / 3)}), y));
  EXPECT_FALSE(found(node("Mul", {any("x"), exactly(1.0 / 3)}), y));
  EXPECT_FALSE(found(node("Mul", {any("x"), passes::number(0.4)}), y));
  const auto m = found(node("Mul", {any("x"), passes::number("c")}), y);
  ASSERT_TRUE(m);
  EXPECT_NEAR(m->number("c"), 1.0 / 3, 1e-6);
  // A half is as near as its digits allow.
  Value* half = g.add_constant("c", scalar(M_SQRT1_2, kF16));
  Value* z = op("Mul", {input("h", {4}, kF16), half});
  EXPECT_TRUE(found(node("Mul", {any("x"), passes::number(M_SQRT1_2)}), z));
}

TEST_F(PatternTest, ProductsInAnyOrder) {
  Value *x = input("x", {4}), *y = input("y", {4});
  const Pattern p = product(3, {any("x"), any("x"), node("Neg", {any("y")})});
  Value* value = op("Mul", {op("Mul", {number(2), op("Mul", {x, op("Neg", {y})})}), op("Mul", {x, number(1.5)})});
  infer();
  const auto m = found(p, value);
  ASSERT_TRUE(m);
  EXPECT_EQ((*m)["x"], x);
  EXPECT_EQ((*m)["y"], y);
  EXPECT_FALSE(found(product(3.1, {any("x"), any("x"), node("Neg", {any("y")})}), value));
  EXPECT_FALSE(found(product(3, {any("x"), any("x")}), value));
}

TEST_F(PatternTest, ChoicesAndUses) {
  Value* x = input("x", {4});
  Value *e = op("Exp", {x}), *y = op("Neg", {e});
  const Pattern either = node("Neg", {one_of({node("Log", {any("x")}).as("log"), node("Exp", {any("x")}).as("exp")})});
  const auto m = found(either, y);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->node("exp"), e->producer);
  EXPECT_EQ(m->node("log"), nullptr);
  const Pattern alone = node("Neg", {node("Exp", {any("x")}).used_once()});
  EXPECT_TRUE(found(alone, y));
  g.add_output("e", e);
  EXPECT_FALSE(found(alone, y));
}

TEST_F(PatternTest, LooksBehindReshapes) {
  Value* x = input("x", {4, 1});
  Value* y = op("Neg", {op("Reshape", {op("Exp", {x}), numbers({4})})});
  infer();
  const Pattern p = node("Neg", {same_elements(node("Exp", {any("x")}).as("inner")).as("outer")});
  const auto m = found(p, y);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->node("outer")->op->name, "Reshape");
  EXPECT_EQ(m->node("inner")->op->name, "Exp");
}

}  // namespace
}  // namespace fettle
