#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class SinkScales : public PassFixture {};

TEST_F(SinkScales, ScalesOfQueriesAndKeysJoinTheScores) {
  Value* q = input("q", {2, 5, 4});
  Value* k = op("Transpose", {input("k", {2, 6, 4})}, ints("perm", {0, 2, 1}));
  Value* scores = op("MatMul", {op("Mul", {q, number(0.5)}), op("Mul", {k, number(0.25)})});
  g.add_output("y", scores);
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(SinkScales, ThroughATranspose) {
  Value* k = op("Transpose", {op("Mul", {input("k", {2, 6, 4}), number(0.25)})}, ints("perm", {0, 2, 1}));
  g.add_output("y", op("MatMul", {input("q", {2, 5, 4}), k}));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

// Their product is no half, so each is a factor of its own: the kernel of the scores takes both along.
TEST_F(SinkScales, FactorsOfHalvesStayExact) {
  const auto root = [&] { return g.add_constant("c", scalar(0.35355339, kF16)); };
  Value* k = op("Transpose", {op("Mul", {input("k", {2, 6, 4}, kF16), root()})}, ints("perm", {0, 2, 1}));
  g.add_output("y", op("MatMul", {op("Mul", {input("q", {2, 5, 4}, kF16), root()}), k}));
  g.sort();
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(histogram(g), "Mul 2, MatMul 1, Transpose 1") << to_text(g);
  const Node* last = g.outputs()[0].value->producer;
  ASSERT_EQ(last->op->name, "Mul");
  ASSERT_EQ(last->input(0)->producer->op->name, "Mul");
  EXPECT_EQ(last->input(0)->producer->input(0)->producer->op->name, "MatMul");
}

TEST_F(SinkScales, WhatOthersUseStays) {
  Value* q = op("Mul", {input("q", {5, 4}), number(0.25)});
  g.add_output("q2", q);
  g.add_output("y", op("MatMul", {q, input("k", {4, 3})}));
  optimize_and_compare();
  EXPECT_EQ(g.outputs()[1].value->producer->op->name, "MatMul");
}

// The product before takes it along already.
TEST_F(SinkScales, WhatAnEpilogueTakesStays) {
  Value* q = op("Mul", {op("MatMul", {input("x", {5, 4}), input("w", {4, 4})}), number(0.25)});
  g.add_output("y", op("MatMul", {q, input("k", {4, 3})}));
  optimize_and_compare();
  EXPECT_EQ(g.outputs()[0].value->producer->op->name, "MatMul");
}

}  // namespace
}  // namespace fettle
