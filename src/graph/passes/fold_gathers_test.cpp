#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class FoldGathers : public PassFixture {
 protected:
  // The inputs run from -3 to 8: some have no row.
  Value* one_hot_product(int64_t depth, int64_t width) {
    Value* index = op("Reshape", {input("i", {1, 40}, kI64), numbers({1, 40, 1})});
    std::vector<int64_t> range;
    for (int64_t i = 0; i < depth; ++i) range.push_back(i);
    Value* equal = op("Equal", {index, g.add_constant("range", reshaped(int_list(range), {1, 1, depth}))});
    Attrs to;
    to.set("to", int64_t{1});
    return op("MatMul", {op("Cast", {equal}, std::move(to)), random({depth, width})});
  }
  Value* small_indices(int64_t count) {
    Attrs clip;
    clip.set("min", 0.0);
    clip.set("max", 4.0);
    return op("Clip", {input("i", {count}, kI64)}, std::move(clip));
  }
};

TEST_F(FoldGathers, AProductWithOneHotRowsIsALookup) {
  g.add_output("y", one_hot_product(7, 4));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(FoldGathers, ElementwiseWorkMovesIntoTheTable) {
  Value* y = op("Add", {one_hot_product(7, 4), random({4})});
  Attrs tanh;
  tanh.set("approximate", std::string("tanh"));
  g.add_output("y", op("Gelu", {op("Mul", {y, number(2)})}, std::move(tanh)));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(FoldGathers, WhatVariesWithTheIndexStays) {
  Value* y = op("Gather", {random({5, 3}), small_indices(8)});
  g.add_output("y", op("Add", {y, random({8, 1})}));
  optimize_and_compare();
  EXPECT_EQ(g.outputs()[0].value->producer->op->name, "Add");
}

// A large table of which little is looked up is not gone through when the model is compiled.
TEST_F(FoldGathers, LargeTablesStay) {
  g.add_output("y", op("Relu", {op("Gather", {random({50, 3}), small_indices(2)})}));
  optimize_and_compare();
  EXPECT_EQ(g.outputs()[0].value->producer->op->name, "Relu");
}

}  // namespace
}  // namespace fettle
