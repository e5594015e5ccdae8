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
