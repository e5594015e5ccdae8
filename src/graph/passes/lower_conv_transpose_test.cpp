#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class SplitTransposed : public PassFixture {
 protected:
  Value* transposed(std::vector<int64_t> weights, int64_t stride, bool bias, Attrs attrs = {}) {
    attrs.set("strides", std::vector<int64_t>{stride, stride});
    std::vector<Value*> inputs = {input("x", {1, weights[0], 3, 5}), random(weights)};
    if (bias) inputs.push_back(random({weights[1]}));
    return op("ConvTranspose", std::move(inputs), std::move(attrs));
  }
  bool stays() const {
    for (const Node* node : g.nodes())
      if (node->op->name == "ConvTranspose") return true;
    return false;
  }
};

TEST_F(SplitTransposed, WindowsSideBySideAreAProductThatIsSpreadOut) {
  g.add_output("y", op("Sigmoid", {transposed({6, 2, 2, 2}, 2, true)}));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(SplitTransposed, OfStrideThree) {
  g.add_output("y", transposed({4, 1, 3, 3}, 3, false));
  optimize_and_compare();
  EXPECT_FALSE(stays());
}

TEST_F(SplitTransposed, ManyChannelsFillVectorsByThemselves) {
  g.add_output("y", transposed({4, 16, 2, 2}, 2, true));
  optimize_and_compare();
  EXPECT_TRUE(stays());
}

TEST_F(SplitTransposed, WindowsThatOverlapStay) {
  g.add_output("y", transposed({4, 1, 4, 4}, 2, true, ints("pads", {1, 1, 1, 1})));
  optimize_and_compare();
  EXPECT_TRUE(stays());
}

// 3 x 5 pixels become 7 x 11: of the 8 x 12 that both phases write, after the sigmoid.
TEST_F(SplitTransposed, PhasesWriteAsManyPixels) {
  g.add_output("y", op("Sigmoid", {transposed({4, 9, 3, 3}, 2, true)}));
  optimize_and_compare();
  EXPECT_GOLDEN(g);
}

TEST_F(SplitTransposed, OddOutputsOfEveryKind) {
  for (const int64_t kernel : {1, 2, 3, 4, 5})
    for (const int64_t stride : {1, 2, 3})
      for (const int64_t before : {0, 1})
        if (kernel + 4 > 2 * before) {
          g = {};
          g.add_output("y",
                       transposed({3, 2, kernel, kernel}, stride, true, ints("pads", {before, before, 0, before})));
          optimize_and_compare();
        }
}

}  // namespace
}  // namespace fettle
