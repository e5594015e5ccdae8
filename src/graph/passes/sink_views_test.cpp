#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class SinkViews : public PassFixture {};

TEST_F(SinkViews, ABiasAndAResidualJoinTheProduct) {
  Value* x = input("x", {1, 6, 8});
  Value* y = op("MatMul", {op("Reshape", {x, numbers({6, 8})}), random({8, 4})});
  y = op("Add", {op("Reshape", {y, numbers({1, 6, 4})}), random({4})});
  g.add_output("y", op("Relu", {op("Add", {input("r", {1, 6, 4}), y})}));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(SinkViews, ABiasOfChannelsJoinsTheConvolution) {
  Value* x = input("x", {1, 4, 9, 1});
  Value* y = op("Conv", {x, random({5, 4, 3, 1})});
  y = op("Reshape", {y, numbers({1, 5, 7})});
  g.add_output("y", op("Relu", {op("Add", {y, random({1, 5, 1})})}));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(SinkViews, ElementwiseWorkGoesBeforeTransposes) {
  Value* x = input("x", {1, 4, 5, 6});
  Value* y = op("Transpose", {op("Conv", {x, random({3, 4, 1, 1})})}, ints("perm", {0, 2, 3, 1}));
  y = op("Mul", {op("Sigmoid", {op("Add", {y, random({3})})}), random({5, 1, 1})});
  g.add_output("y", y);
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

// A constant that varies along part of the dims that a reshape joins has no shape before it.
TEST_F(SinkViews, WhatDoesNotFitStays) {
  Value* x = input("x", {12, 4});
  Value* y = op("Reshape", {op("MatMul", {x, random({4, 4})}), numbers({3, 4, 4})});
  g.add_output("y", op("Add", {y, random({4, 1})}));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Add 1, MatMul 1, Reshape 1");
  EXPECT_EQ(g.outputs()[0].value->producer->op->name, "Add");
}

}  // namespace
}  // namespace fettle
