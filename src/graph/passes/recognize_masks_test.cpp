#include <limits>

#include "graph/passes/testing.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Scores of 5 queries and 7 keys.
class RecognizeMasks : public PassFixture {
 protected:
  static constexpr int64_t kQueries = 5, kKeys = 7;

  Value* scores() { return op("MatMul", {input("q", {2, kQueries, 4}), input("k", {2, 4, kKeys})}); }
  Value* places(int64_t first, int64_t count) {
    return op("Range", {integer(first), integer(first + count), integer(1)});
  }
  Value* integer(int64_t value) { return g.add_constant("i", reshaped(int_list(std::vector<int64_t>{value}), {})); }
  Value* rows(Value* x) { return op("Unsqueeze", {x}, ints("axes", {1})); }
  Value* hidden(double value = -kInfinity) { return g.add_constant("hidden", scalar(value)); }
  Value* matrix(const std::function<double(int64_t i, int64_t j)>& element, DType dtype = kF32) {
    std::vector<double> all;
    for (int64_t i = 0; i < kQueries; ++i)
      for (int64_t j = 0; j < kKeys; ++j) all.push_back(element(i, j));
    return g.add_constant("mask", *to_tensor(all, dtype, {kQueries, kKeys}));
  }
  void softmax(Value* masked) { g.add_output("y", op("Softmax", {masked}, axis(-1))); }
  /// The offset of the one CausalMask.
  std::optional<int64_t> offset() const {
    for (const Node* node : g.nodes())
      if (node->op->name == "CausalMask") return node->attrs.get_ints("offset").front();
    return {};
  }
};

TEST_F(RecognizeMasks, ComparedPlaces) {
  for (const auto& [op_name, keys_first, expected] :
       {std::tuple("LessOrEqual", true, 2), std::tuple("Less", true, 1), std::tuple("GreaterOrEqual", false, 2),
        std::tuple("Greater", false, 1)}) {
    g = Graph("g");
    Value *keys = places(0, kKeys), *queries = rows(op("Add", {places(0, kQueries), integer(2)}));
    std::vector<Value*> sides = {keys, queries};
    if (!keys_first) std::swap(sides[0], sides[1]);
    softmax(op("Where", {op(op_name, sides), scores(), hidden()}));
    optimize_and_compare();
    EXPECT_EQ(offset(), expected) << op_name << to_text(g);
  }
}

TEST_F(RecognizeMasks, WhatIsHiddenMayComeFirst) {
  softmax(op("Where", {op("Less", {rows(places(3, kQueries)), places(0, kKeys)}), hidden(), scores()}));
  optimize_and_compare();
  EXPECT_EQ(offset(), 3) << to_text(g);
}

TEST_F(RecognizeMasks, Constants) {
  softmax(op("Add", {scores(), matrix([](int64_t i, int64_t j) { return j <= i + 1 ? 0 : -kInfinity; })}));
  optimize_and_compare();
  EXPECT_EQ(offset(), 1) << to_text(g);
  g = Graph("g");
  softmax(op("Where", {matrix([](int64_t i, int64_t j) { return j > i ? 1 : 0; }, kBool), hidden(), scores()}));
  optimize_and_compare();
  EXPECT_EQ(offset(), 0) << to_text(g);
}

TEST_F(RecognizeMasks, ALargeNumberIsAsGoodAsInfinite) {
  for (const double number : {-3.4e38, -1e4}) {
    g = Graph("g");
    softmax(op("Add", {scores(), matrix([&](int64_t i, int64_t j) { return j <= i ? 0 : number; })}));
    optimize_and_compare();
    EXPECT_EQ(offset().has_value(), number < -1e30) << to_text(g);
  }
  // Somebody else reads it.
  g = Graph("g");
  Value* masked = op("Add", {scores(), matrix([&](int64_t i, int64_t j) { return j <= i ? 0 : -3.4e38; })});
  softmax(masked);
  g.add_output("z", masked);
  optimize_and_compare();
  EXPECT_FALSE(offset()) << to_text(g);
}

TEST_F(RecognizeMasks, OtherMasksStay) {
  for (const auto& element : std::vector<std::function<bool(int64_t, int64_t)>>{
           [](int64_t i, int64_t j) { return j >= i; }, [](int64_t i, int64_t j) { return j <= i && i - j < 3; },
           [](int64_t, int64_t j) { return j < 4; }, [](int64_t i, int64_t j) { return j <= 2 * i; }}) {
    g = Graph("g");
    softmax(op("Add", {scores(), matrix([&](int64_t i, int64_t j) { return element(i, j) ? 0 : -kInfinity; })}));
    optimize_and_compare();
    EXPECT_FALSE(offset()) << to_text(g);
  }
}

TEST_F(RecognizeMasks, TrianglesOfOpenSizes) {
  const Dim keys = Dim::symbol("T"), queries = Dim::symbol("S");
  Value* x = op("MatMul", {input("q", {2, queries, 4}), input("k", {2, 4, keys})});
  Value* extents = op("Slice", {op("Shape", {x}), numbers({1}), numbers({3})});
  Value* ones = op("ConstantOfShape", {extents}, {{"value", reshaped(scalar(1), {1})}});
  Value* seen = op("Cast", {op("Trilu", {ones}, {{"upper", int64_t{0}}})}, {{"to", int64_t{9}}});
  Value* bias = op("Where", {seen, number(0), hidden()});
  softmax(op("Add", {x, bias}));
  g.sort();
  const auto done = optimize(g);
  ASSERT_TRUE(done) << done.error().to_string();
  EXPECT_EQ(offset(), 0) << to_text(g);
}

}  // namespace
}  // namespace fettle
