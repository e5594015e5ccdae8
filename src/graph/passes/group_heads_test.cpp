#include "graph/passes/testing.h"

namespace fettle {
namespace {

class GroupHeads : public PassFixture {
 protected:
  size_t count(std::string_view name) const {
    size_t n = 0;
    for (const Node* node : g.nodes()) n += node->op->name == name ? 1 : 0;
    return n;
  }
  // [batch, 2, rows, 4] as [batch, 6, rows, 4]
  Value* repeated(Value* x, int64_t batch, int64_t rows) {
    Value* wide = op("Expand", {op("Unsqueeze", {x}, ints("axes", {2})), numbers({batch, 2, 3, rows, 4})});
    return op("Reshape", {wide, numbers({batch, 6, rows, 4})});
  }
};

TEST_F(GroupHeads, SharedKeysAndValuesAreReadAsTheyAre) {
  for (const int64_t queries : {1, 5}) {
    g = Graph("g");
    Value *q = input("q", {2, 6, queries, 4}), *k = input("k", {2, 2, 7, 4}), *v = input("v", {2, 2, 7, 4});
    Value* keys = op("Transpose", {repeated(k, 2, 7)}, ints("perm", {0, 1, 3, 2}));
    Value* scores = op("Add", {op("Mul", {op("MatMul", {q, keys}), number(0.5)}), input("mask", {2, 1, queries, 7})});
    g.add_output("y", op("MatMul", {op("Softmax", {scores}, axis(-1)), repeated(v, 2, 7)}));
    optimize_and_compare();
    EXPECT_EQ(count("Expand"), 0u) << to_text(g);
    EXPECT_EQ(count("MatMul"), 2u) << to_text(g);
    const Node* product = nullptr;
    for (const Node* node : g.nodes())
      if (node->op->name == "MatMul") product = node;
    EXPECT_EQ(to_string(product->output()->shape()), queries == 1 ? "[2, 2, 3, 4]" : "[2, 2, 3, 5, 4]");
    // Nothing stands between the products but what their kernels take along.
    EXPECT_EQ(product->input(0)->producer->op->name, "Softmax") << to_text(g);
  }
}

TEST_F(GroupHeads, OtherRepetitionsStay) {
  Value *q = input("q", {2, 6, 5, 4}), *k = input("k", {2, 1, 2, 4, 7});
  // Head h reads keys h % 2.
  Value* wide = op("Expand", {k, numbers({2, 3, 2, 4, 7})});
  g.add_output("y", op("MatMul", {q, op("Reshape", {wide, numbers({2, 6, 4, 7})})}));
  optimize_and_compare();
  EXPECT_EQ(count("Expand"), 1u) << to_text(g);
}

}  // namespace
}  // namespace fettle
