#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class CombineSiblings : public PassFixture {};

TEST_F(CombineSiblings, QueriesKeysAndValuesAreOneProduct) {
  Value* x = input("x", {1, 5, 8});
  const auto heads = [&](int64_t width, bool bias) {
    Value* y = op("MatMul", {x, random({8, width})});
    if (bias) y = op("Add", {random({width}), y});
    return op("Transpose", {op("Reshape", {y, numbers({1, 5, 2, width / 2})})}, ints("perm", {0, 2, 1, 3}));
  };
  g.add_output("q", heads(8, true));
  g.add_output("k", heads(8, false));
  g.add_output("v", heads(4, true));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(CombineSiblings, ConvolutionsWithTheSameActivation) {
  Value* x = input("x", {1, 3, 4, 4});
  const auto branch = [&](int64_t channels, int64_t kernel) {
    return op("Relu", {op("Conv", {x, random({channels, 3, kernel, kernel}), random({channels})},
                          ints("pads", std::vector<int64_t>(4, kernel / 2)))});
  };
  Value* a = op("MaxPool", {branch(4, 1)}, ints("kernel_shape", {2, 2}));
  Value* b = op("AveragePool", {branch(2, 1)}, ints("kernel_shape", {2, 2}));
  Value* c = op("MaxPool", {branch(2, 3)}, ints("kernel_shape", {2, 2}));  // another window: stays
  g.add_output("a", a);
  g.add_output("b", b);
  g.add_output("c", c);
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

// A sum with what comes from elsewhere is an epilogue of the one convolution, which the other has not.
TEST_F(CombineSiblings, WhatHasAnEpilogueOfItsOwnStays) {
  Value* x = input("x", {1, 3, 4, 4});
  g.add_output("a", op("MaxPool", {op("Add", {op("Conv", {x, random({4, 3, 1, 1})}), input("r", {1, 4, 4, 4})})},
                       ints("kernel_shape", {2, 2})));
  g.add_output("b", op("MaxPool", {op("Conv", {x, random({4, 3, 1, 1})})}, ints("kernel_shape", {2, 2})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Conv 2, MaxPool 2, Add 1");
}

}  // namespace
}  // namespace fettle
