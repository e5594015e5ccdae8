#include "rt/tensor.h"

#include <gtest/gtest.h>

#include <vector>

namespace fettle::rt {
namespace {

TEST(Tensors, AreCopiedWithAnyStrides) {
  const int32_t from[] = {0, 1, 2, 3, 4, 5};
  const int64_t extents[] = {2, 3}, transposed[] = {1, 2};
  int32_t to[6] = {};
  copy_elements(to, transposed, from, nullptr, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(to, to + 6), (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  int32_t back[6] = {};
  copy_elements(back, nullptr, to, transposed, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(back, back + 6), std::vector<int32_t>(from, from + 6));
  const int64_t wide[] = {4, 1};
  int32_t rows[8] = {};
  copy_elements(rows, wide, from, nullptr, extents, 2, FETTLE_I32);
  EXPECT_EQ(std::vector<int32_t>(rows, rows + 8), (std::vector<int32_t>{0, 1, 2, 0, 3, 4, 5, 0}));
}

}  // namespace
}  // namespace fettle::rt
