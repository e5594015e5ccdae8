#include <gtest/gtest.h>

#include "graph/late_sizes.h"
#include "graph/passes/pipeline.h"
#include "graph/passes/testing.h"
#include "graph/plan/testing.h"

namespace fettle {
namespace {

class Sequences : public PassFixture {
 protected:
  std::vector<Value*> many(std::string_view name, std::vector<Value*> inputs, size_t n_outputs = 2, Attrs attrs = {}) {
    return g.add_node(find_op(name), std::string(name), std::move(inputs), std::move(attrs), {}, n_outputs)->outputs;
  }
  Value* position(int64_t i) { return g.add_constant("i", reshaped(int_list(std::vector<int64_t>{i}), {})); }
  Diagnostic refusal() {
    const auto done = optimize(g);
    EXPECT_FALSE(done) << to_text(g);
    return done ? Diagnostic{} : done.error();
  }

  const Dim n_ = Dim::symbol("N", 0, kMaxDim, 1, 8), m_ = Dim::symbol("M", 0, kMaxDim, 1, 8);
};

TEST_F(Sequences, AnElementThatIsKnownIsThere) {
  Value *a = input("a", {n_, 4}), *b = input("b", {m_, 3});
  auto s = many("SequenceConstruct", {a, b});
  s = many("SequenceInsert", {s[0], s[1], a, position(0)});
  s = many("SequenceErase", {s[0], s[1], position(-2)});
  g.add_output("y", many("SequenceAt", {s[0], s[1], position(-1)}, 1)[0]);
  g.add_output("n", many("SequenceLength", {s[0], s[1]}, 1)[0]);
  ASSERT_TRUE(optimize(g));
  EXPECT_TRUE(g.nodes().empty()) << to_text(g);
  EXPECT_EQ(g.outputs()[0].value, b);
  EXPECT_EQ(g.outputs()[1].value->constant->int_at(0), 2);
}

TEST_F(Sequences, ConcatenationOfKnownElementsIsOneNode) {
  Value *a = input("a", {2, n_}), *b = input("b", {2, m_});
  const auto s = many("SequenceConstruct", {a, b});
  g.add_output("y", many("ConcatFromSequence", {s[0], s[1]}, 1, axis(-1))[0]);
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(histogram(g), "Concat 1") << to_text(g);
  EXPECT_EQ(g.nodes()[0]->inputs, (std::vector<Value*>{a, b}));
}

TEST_F(Sequences, ElementsOfOtherRanksHaveExtentsBehindThem) {
  const auto s = many("SequenceConstruct", {input("a", {3}), input("b", {2, 5})});
  g.add_output("dims", s[1]);
  g.add_output("y", many("SequenceAt", {s[0], s[1], position(0)}, 1)[0]);
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(to_ints(*g.outputs()[0].value->constant), (std::vector<int64_t>{3, -1, 2, 5}));
  EXPECT_EQ(g.outputs()[1].value, g.inputs()[0]);
}

TEST_F(Sequences, APieceOfATensorIsASlice) {
  const auto s = many("SplitToSequence", {input("x", {7, n_}), position(3)});
  g.add_output("y", many("SequenceAt", {s[0], s[1], position(2)}, 1)[0]);
  ASSERT_TRUE(optimize(g));
  EXPECT_EQ(histogram(g), "Slice 1") << to_text(g);
  EXPECT_EQ(g.outputs()[0].value->shape(), (Shape{1, n_}));
}

// Where the last one begins would be a sum of all their sizes.
TEST_F(Sequences, ManyPiecesWhoseSizesDataTellAreNotListed) {
  Value* sizes = g.add_input("sizes", {kI64, {100}});
  const auto s = many("SplitToSequence", {input("x", {n_}), sizes});
  g.add_output("n", many("SequenceLength", {s[0], s[1]}, 1)[0]);
  g.add_output("y", many("SequenceAt", {s[0], s[1], position(99)}, 1)[0]);
  ASSERT_TRUE(optimize(g));
  EXPECT_LT(g.nodes().size(), 50u) << to_text(g);
}

// A few numbers of a file must not become a list without end.
TEST_F(Sequences, PiecesWithoutNumberAreNotListed) {
  const auto s = many("SplitToSequence", {input("x", {0, kMaxDim})}, 2, {{"axis", int64_t{1}}});
  g.add_output("n", many("SequenceLength", {s[0], s[1]}, 1)[0]);
  (void)optimize(g);
}

TEST_F(Sequences, PositionsOutsideAreRefused) {
  const auto s = many("SequenceConstruct", {input("a", {3}), input("b", {2})});
  g.add_output("y", many("SequenceAt", {s[0], s[1], position(2)}, 1)[0]);
  EXPECT_EQ(refusal().code, ErrorCode::E605);
}

TEST_F(Sequences, ElementsThatDoNotFitAreRefused) {
  const auto s = many("SequenceConstruct", {input("a", {3}), input("b", {2, 3})});
  g.add_output("y", many("ConcatFromSequence", {s[0], s[1]}, 1, axis(0))[0]);
  const Diagnostic refused = refusal();
  EXPECT_EQ(refused.code, ErrorCode::E605);
  EXPECT_NE(refused.message.find("different ranks"), std::string::npos) << refused.to_string();
}

TEST_F(Sequences, ARankThatIsOpenIsNamed) {
  Value *data = input("x.data", {n_}), *dims = input("x.dims", {3, Dim::symbol("x.rank", 0, 8)}, kI64);
  g.add_output("y", many("SequenceAt", {data, dims, position(2)}, 1)[0]);
  const Diagnostic refused = refusal();
  EXPECT_EQ(refused.code, ErrorCode::E604);
  EXPECT_NE(refused.message.find("x.rank"), std::string::npos) << refused.to_string();
}

TEST_F(Sequences, NothingIsNotRead) {
  Value* present = g.add_constant("present", scalar(0, kBool));
  g.add_output("y", many("OptionalGetElement", {present, input("x", {2})}, 1)[0]);
  EXPECT_EQ(refusal().code, ErrorCode::E605);
}

// No element of an empty sequence is read by a body that is never run.
TEST_F(Sequences, NothingIsMappedToNothing) {
  const auto empty = many("SequenceEmpty", {}, 2, {{"dtype", int64_t{1}}});
  Node* map = g.add_node(find_op("SequenceMap"), "map", {empty[0], empty[1]},
                         {{"kinds", std::vector<int64_t>{1}}, {"dtypes", std::vector<int64_t>{1}}}, {}, 2);
  auto body = std::make_shared<Graph>("body");
  body->add_output("y", body->add_node(find_op("Relu"), "relu", {body->add_input("x")})->output());
  map->bodies.push_back(std::move(body));
  g.add_output("dims", map->outputs[1]);
  ASSERT_TRUE(optimize(g));
  EXPECT_TRUE(g.nodes().empty()) << to_text(g);
  EXPECT_EQ(g.outputs()[0].value->shape()[0], Dim(0));
}

// A row whose place among the others only a run tells is not written before that.
TEST_F(Sequences, AnElementGoesWhereDataSay) {
  Value *a = input("a", {n_}), *b = input("b", {m_});
  auto s = many("SequenceConstruct", {a, b, a});
  s = many("SequenceInsert", {s[0], s[1], op("Relu", {b}), input("p", {}, kI64)});
  g.add_output("data", s[0]);
  g.add_output("dims", s[1]);
  const Result<Plan> plan = optimised_plan(g);
  ASSERT_TRUE(plan) << plan.error().to_string();
  const auto list = [](std::vector<double> values) { return *to_tensor(values, kF32, {std::ssize(values)}); };
  const std::vector<std::vector<int64_t>> expected{{2, 1, 2, 1}, {1, 2, 2, 1}, {1, 2, 2, 1}, {1, 2, 1, 2}};
  for (int64_t p = -1; p < 4; ++p) {
    const auto got = run_plan(
        g, *plan, {{"a", list({1})}, {"b", list({2, 3})}, {"p", reshaped(int_list(std::vector<int64_t>{p}), {})}});
    EXPECT_EQ(to_ints(got.at("dims")), expected[static_cast<size_t>(p < 0 ? p + 3 : p)]) << p;
    EXPECT_EQ(got.at("data").n_elems(), 6);
  }
}

// Two numbers of data that must be equal are looked at when both are known.
TEST_F(Sequences, SizesThatDataTellStayApart) {
  const auto range = [&](const char* name) { return op("Range", {position(0), input(name, {}, kI64), position(1)}); };
  g.add_output("y", op("Add", {range("n"), range("m")}));
  ASSERT_TRUE(optimize(g));
  std::set<std::string> sizes;
  for (const Node* node : g.nodes())
    for (const Dim& size : defined_sizes(*node)) EXPECT_TRUE(sizes.emplace(size.symbol_name()).second) << to_text(g);
  EXPECT_EQ(sizes.size(), 2u);
  EXPECT_FALSE(g.size_checks().empty());
}

}  // namespace
}  // namespace fettle
