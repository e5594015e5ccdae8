#include "graph/plan/size_table.h"

#include <gtest/gtest.h>

#include "graph/op_util.h"
#include "graph/passes/pipeline.h"
#include "graph/plan/testing.h"
#include "graph/testing.h"
#include "ir/interpret.h"

namespace fettle {
namespace {

/// y = relu(x) @ w + b, s = x + z, over sizes of x and z.
class SizeTableTest : public ::testing::Test {
 protected:
  SizeTableTest() {
    const Dim n = Dim::symbol("N", 1, 100), t = Dim::symbol("T"), u = Dim::symbol("U", 0, 64, 8);
    Value* x = m_.graph.add_input("x", {kF32, {n, t, 8}});
    Value* z = m_.graph.add_input("z", {kF32, {n, u, 8}});
    m_.graph.add_input("again", {kF32, {n, 3}});
    const auto node = [&](const char* op, std::vector<Value*> inputs) {
      return m_.graph.add_node(find_op(op), op, std::move(inputs))->output();
    };
    m_.graph.add_output("y", node("MatMul", {node("Relu", {x}), m_.weights("w", {8, 16}, 4)}));
    m_.graph.add_output("s", node("Sigmoid", {node("Add", {x, z})}));
    EXPECT_TRUE(optimize(m_.graph));
    plan_ = *make_plan(m_.graph);
    assign_memory(plan_, [](int) { return true; });
  }

  /// The table for these extents of x, z and again.
  std::vector<int64_t> table_for(const std::vector<int64_t>& extents) {
    SizeTable table(m_.graph, plan_);
    table.index_of(plan_.storages[0].size_bytes);
    const Func program = table.programs("sizes").front();
    errors_ = table.errors();
    std::vector<int64_t> filled(table.entries().size(), 77);
    const std::vector<BufferArg> args = {{reinterpret_cast<std::byte*>(filled.data()), std::ssize(filled) * 8}};
    const auto done = interpret(program, args, extents);
    EXPECT_TRUE(done) << (done ? "" : done.error().to_string());
    return filled;
  }
  std::string error_for(const std::vector<int64_t>& extents) {
    const int64_t first = table_for(extents)[0];
    return first < 0 ? errors_[static_cast<size_t>(-1 - first)] : "";
  }

  GraphMaker m_;
  Plan plan_;
  std::vector<std::string> errors_;
};

TEST_F(SizeTableTest, HasTheArenaThenTheOutputsExtents) {
  const std::vector<int64_t> table = table_for({2, 16, 8, 2, 16, 8, 2, 3});
  EXPECT_GE(table[0], 2 * 16 * 8 * 4);
  EXPECT_EQ(std::vector(table.begin() + 1, table.begin() + 7), (std::vector<int64_t>{2, 16, 16, 2, 16, 8}));
  EXPECT_EQ(table.back(), 2 * 16 * 8 * 4);
}

TEST_F(SizeTableTest, TellsWhatIsWrong) {
  EXPECT_EQ(error_for({1, 8, 8, 1, 8, 8, 1, 3}), "");
  EXPECT_EQ(error_for({101, 8, 8, 101, 8, 8, 101, 3}), "input \"x\", axis 0: the extent must lie in 1 to 100");
  EXPECT_EQ(error_for({2, 8, 8, 1, 8, 8, 2, 3}),
            "input \"x\", axis 0, and input \"z\", axis 0: the extents must be equal (N)");
  EXPECT_EQ(error_for({2, 8, 8, 2, 16, 8, 2, 3}),
            "input \"x\", axis 1, and input \"z\", axis 1: the extents must be equal (T)");
  EXPECT_EQ(error_for({2, 12, 8, 2, 12, 8, 2, 3}), "input \"x\", axis 1: the extent must be a multiple of 8");
  EXPECT_EQ(error_for({2, 8, 8, 2, 8, 8, 2, 4}), "input \"again\", axis 1: the extent must be 3");
  EXPECT_NE(error_for({2, 8, 9, 2, 8, 8, 2, 3}), "");
}

TEST(SizeTable, FixedSizesNeedNone) {
  GraphMaker m;
  m.graph.add_output("y", m.node("Relu", {m.input("x", {2, 3})}));
  m.graph.sort();
  const Plan plan = *make_plan(m.graph);
  EXPECT_TRUE(SizeTable(m.graph, plan).empty());
}

}  // namespace
}  // namespace fettle
