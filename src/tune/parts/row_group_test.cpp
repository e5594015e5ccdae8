#include "tune/parts/row_group.h"

#include <gtest/gtest.h>

#include "schedule/dataflow/dataflow.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

TEST(RowGroup, OfASoftmax) {
  const auto group = row_group(testing::softmax_workload(5, 37));
  ASSERT_TRUE(group);
  EXPECT_EQ(group->blocks, (std::vector<std::string>{"M", "E", "S", "Y"}));
  EXPECT_EQ(group->rows, std::vector<size_t>{0});
  EXPECT_FALSE(group->rows_are_contiguous);
}

TEST(RowGroup, RowsThatLieSideBySide) {
  const auto group = row_group(testing::softmax_middle_workload(2, 7, 37));
  ASSERT_TRUE(group);
  EXPECT_EQ(group->rows, (std::vector<size_t>{0, 2}));
  EXPECT_EQ(group->rows_of[0], (std::vector<size_t>{0, 1}));  // the maximum has no loop over columns before its rows
  EXPECT_TRUE(group->rows_are_contiguous);
}

TEST(RowGroup, OfWhatIsBetweenTwoProducts) {
  const Func func = testing::attention_workload(2, 13, 10);
  const std::vector<const BlockNode*> blocks = blocks_of(func.root());  // S M E T P Y
  const auto group = row_group(func, {blocks.begin() + 1, blocks.end() - 1});
  ASSERT_TRUE(group);
  EXPECT_EQ(group->blocks, (std::vector<std::string>{"M", "E", "T", "P"}));
  EXPECT_EQ(group->rows, (std::vector<size_t>{0, 1}));
  EXPECT_FALSE(row_group(func, {blocks.begin() + 1, blocks.end() - 2}));  // what T makes is read elsewhere, E's too
}

TEST(RowGroup, OneReductionIsAMatterOfTiles) {
  EXPECT_FALSE(row_group(testing::matmul_workload(19, 37, 11, false, false, true, true)));
  EXPECT_FALSE(
      row_group(testing::conv_workload({.h = 9, .w = 11, .ic = 21, .oc = 21, .groups = 21, .epilogue = true})));
  EXPECT_FALSE(row_group(testing::pool_workload(9, 12, 20, true, true)));
  EXPECT_FALSE(row_group(testing::elementwise_workload(3, 7, 19)));
}

}  // namespace
}  // namespace fettle
