#include "runtime/tensor.h"

#include <gtest/gtest.h>

#include "runtime/dtype.h"

namespace fettle {
namespace {

TEST(Tensor, IsZeroedAndAligned) {
  for (const FettleDtype dtype : {FETTLE_BOOL, FETTLE_I16, FETTLE_F32, FETTLE_F64}) {
    auto tensor = Tensor::make(dtype, {3, 5});
    ASSERT_TRUE(tensor) << tensor.error().to_string();
    EXPECT_EQ(tensor->n_elems(), 15);
    EXPECT_EQ(tensor->n_bytes(), 15 * dtype_bytes(dtype));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data()) % 64, 0u);
    for (const uint8_t byte :
         std::span(static_cast<const uint8_t*>(tensor->data()), static_cast<size_t>(tensor->n_bytes())))
      EXPECT_EQ(byte, 0);
  }
}

TEST(Tensor, ScalarAndEmptyShapes) {
  EXPECT_EQ(Tensor::make(FETTLE_F32, {})->n_elems(), 1);
  EXPECT_EQ(Tensor::make(FETTLE_F32, {4, 0})->n_elems(), 0);
  EXPECT_EQ(Tensor().type_to_string(), "f32[0]");
}

TEST(Tensor, RefusesImpossibleShapes) {
  EXPECT_EQ(Tensor::make(FETTLE_F32, {2, -1}).error().code, ErrorCode::E709);
  EXPECT_EQ(Tensor::make(FETTLE_F32, {int64_t{1} << 30, int64_t{1} << 30}).error().code, ErrorCode::E709);
  EXPECT_EQ(Tensor::make(FETTLE_F32, {INT64_MAX, INT64_MAX}).error().code, ErrorCode::E709);
  EXPECT_EQ(Tensor::make(FettleDtype{}, {1}).error().code, ErrorCode::E709);
}

TEST(Tensor, CloneIsSeparate) {
  auto tensor = Tensor::make(FETTLE_I32, {2, 2});
  tensor->elems<int32_t>()[3] = 7;
  auto copy = tensor->clone();
  tensor->elems<int32_t>()[3] = 8;
  EXPECT_EQ(copy->elems<int32_t>()[3], 7);
  EXPECT_EQ(copy->type_to_string(), "i32[2, 2]");
}

TEST(Dtype, NamesRoundTrip) {
  for (int32_t dtype = FETTLE_BOOL; dtype <= FETTLE_STRING; ++dtype) {
    EXPECT_EQ(find_dtype(dtype_name(dtype)), static_cast<FettleDtype>(dtype));
    EXPECT_GT(dtype_bytes(dtype), 0);
  }
  EXPECT_EQ(dtype_bytes(0), 0);
  EXPECT_EQ(dtype_name(FETTLE_STRING + 1), "?");
  EXPECT_FALSE(find_dtype("f33"));
}

}  // namespace
}  // namespace fettle
