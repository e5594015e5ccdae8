#include "graph/passes/testing.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

class JoinSums : public PassFixture {
 protected:
  // Of 4 MiB: the smallest that are joined.
  Value* matrix() { return input("m", {1024, 1024}); }
  Value* sum(const char* equation, Value* matrix, Value* vector) {
    return op("Einsum", {matrix, vector}, {{"equation", std::string(equation)}});
  }
};

constexpr const char *kOfRows = "ij,j->i", *kOfColumns = "ij,i->j";

TEST_F(JoinSums, RowsAndColumnsOfOneMatrix) {
  Value* m = matrix();
  g.add_output("q", sum(kOfRows, m, input("p", {1024})));
  g.add_output("s", sum(kOfColumns, m, input("r", {1024})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "fettle.LoopProgram 1") << to_text(g);
}

TEST_F(JoinSums, ColumnsNeedAnElementOfTheRowsSum) {
  Value* m = matrix();
  Value* t = sum(kOfRows, m, input("x", {1024}));
  g.add_output("y", sum(kOfColumns, m, t));
  g.add_output("t", t);
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "fettle.LoopProgram 1") << to_text(g);
}

// Three: two of them, and one by itself.
TEST_F(JoinSums, AreTwo) {
  Value* m = matrix();
  g.add_output("a", sum(kOfRows, m, input("x", {1024})));
  g.add_output("b", sum(kOfColumns, m, input("y", {1024})));
  g.add_output("c", sum(kOfRows, m, input("z", {1024})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Einsum 1, fettle.LoopProgram 1") << to_text(g);
}

TEST_F(JoinSums, WhatNeedsAllOfTheOtherStays) {
  Value* m = matrix();
  g.add_output("z", sum(kOfRows, m, sum(kOfColumns, m, input("x", {1024}))));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Einsum 2") << to_text(g);
}

TEST_F(JoinSums, WhatNeedsTheOtherByWayOfOthersStays) {
  Value* m = matrix();
  g.add_output("y", sum(kOfColumns, m, op("Neg", {sum(kOfRows, m, input("x", {1024}))})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g), "Einsum 2, Neg 1") << to_text(g);
}

TEST_F(JoinSums, SmallMatricesStay) {
  Value* m = input("m", {1023, 1024});
  g.add_output("q", sum(kOfRows, m, input("p", {1024})));
  g.add_output("s", sum(kOfColumns, m, input("r", {1023})));
  optimize_and_compare();
  EXPECT_EQ(histogram(g).find("LoopProgram"), std::string::npos) << to_text(g);
}

}  // namespace
}  // namespace fettle
