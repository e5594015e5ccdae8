#include "graph/work.h"

#include <fmt/format.h>

#include "graph/control.h"
#include "graph/passes/testing.h"

namespace fettle {
namespace {

TEST(SizedCount, AddsProductsOfSizes) {
  const Dim n = Dim::symbol("N", 0, kMaxDim, 1, 10), m = Dim::symbol("M", 0, kMaxDim, 1, 3);
  SizedCount count;
  EXPECT_EQ(count.to_string(), "0");
  count.add(2, {n, 4, m});
  count.add(1, {n + 1});
  EXPECT_FALSE(count.is_number());
  EXPECT_EQ(count.to_string(), "N + 8 * M * N + 1");
  EXPECT_EQ(count.typical(), 10 + 8 * 30 + 1);
  SizedCount twice;
  twice.add(count, 2);
  EXPECT_EQ(twice.to_string(), "2 * N + 16 * M * N + 2");
  twice.add(count, n);
  EXPECT_EQ(twice.to_string(), "N * N + 3 * N + 8 * M * N * N + 16 * M * N + 2");
}

// Dims end at 2^40.
// Of many terms, or long ones, the summary stays a line.
TEST(SizedCount, SummariesAreShort) {
  SizedCount count;
  count.add(2, {Dim::symbol("N")});
  count.add(7);
  EXPECT_EQ(count.summary(), count.to_string());
  for (int i = 0; i < 50; ++i) count.add(i + 3, {Dim::symbol(fmt::format("M{}", i))});
  count.add(1000, {Dim::symbol(std::string(300, 'L'))});
  EXPECT_EQ(count.summary(),
            "1000 * " + std::string(60, 'L') + "… + 52 * M49 + 51 * M48 + 50 * M47 + … (49 smaller terms)");
  EXPECT_GT(count.to_string().size(), 700u);
}

TEST(SizedCount, HasNoLargestValue) {
  SizedCount count;
  count.add(2, {1 << 20, 1 << 20, 1 << 10});
  EXPECT_TRUE(count.is_number());
  EXPECT_EQ(count.to_string(), "2251799813685248");
}

class WorkOf : public PassFixture {};

TEST_F(WorkOf, CountsOperationsOnElements) {
  const Dim n = Dim::symbol("N", 0, kMaxDim, 1, 8);
  Value* x = input("x", {n, 3});
  Value* product = op("MatMul", {x, random({3, 4})});
  g.add_output("y", op("Relu", {op("Reshape", {product, numbers({-1, 2})})}));
  ASSERT_TRUE(optimize(g));
  const auto work = work_of(g);
  ASSERT_TRUE(work) << work.error().to_string();
  EXPECT_EQ(work->operations.to_string(), "28 * N");  // 3 * 4 products that are added, and 4 maxima
  // x, w and the product; the product and y
  EXPECT_EQ(work->bytes.to_string(), "60 * N + 48");
}

TEST_F(WorkOf, CountsBodiesOnceAnIteration) {
  Graph body("body");
  body.add_input("i");
  Value* go = body.add_input("go");
  Value* state = body.add_input("s");
  body.add_output("go", go);
  body.add_output("s", body.add_node(find_op("Exp"), "exp", {state})->output());
  Node* loop = g.add_node(find_op("Loop"), "loop", {g.add_input("n", {kI64, {}}), nullptr, input("x", {5})});
  loop->attrs.set("carried", int64_t{1});
  loop->bodies.push_back(std::make_shared<Graph>(std::move(body)));
  g.add_output("y", loop->output());
  ASSERT_TRUE(optimize(g));
  const auto work = work_of(g);
  ASSERT_TRUE(work) << work.error().to_string();
  const auto iterations = LoopParts(*g.nodes().back()).iterations().to_string();
  EXPECT_EQ(work->operations.to_string(), "5 * " + iterations) << to_text(g);
}

}  // namespace
}  // namespace fettle
