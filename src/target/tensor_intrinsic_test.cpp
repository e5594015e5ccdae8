#include "target/tensor_intrinsic.h"

#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/text.h"

namespace fettle {
namespace {

// Bytes of a parameter, of which each element is a small number.
std::vector<float> filled(const Param& param, int seed) {
  int64_t count = 1;
  for (const Expr& extent : param.buffer->shape) count *= *as_int(extent);
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>((static_cast<int>(i) * 5 + seed) % 7) - 3.0f;
  return values;
}

TEST(TensorIntrinsic, ImplementationsComputeTheMeaning) {
  ASSERT_FALSE(tensor_intrinsics().empty());
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics()) {
    SCOPED_TRACE(intrinsic->name);
    const Func meaning = meaning_of(*intrinsic), implementation = implementation_of(*intrinsic);
    ASSERT_EQ(meaning->params.size(), implementation->params.size());
    std::vector<float> results[2];
    for (int f = 0; f < 2; ++f) {
      const Func& func = f ? implementation : meaning;
      std::vector<std::vector<float>> data;
      std::vector<BufferArg> args;
      std::vector<int64_t> ints;
      for (size_t p = 0; p < func->params.size(); ++p) {
        ASSERT_EQ(func->params[p].buffer->dtype, kF32);
        data.push_back(filled(meaning->params[p], static_cast<int>(p)));
      }
      for (auto& d : data) args.push_back({d.data(), static_cast<int64_t>(d.size() * sizeof(float))});
      if (f)  // dense strides
        for (const Param& param : meaning->params) ints.push_back(*as_int(param.buffer->shape[1]));
      const auto done = interpret(func, args, ints);
      ASSERT_TRUE(done) << done.error().to_string();
      results[f] = data.back();
    }
    EXPECT_EQ(results[0], results[1]);
  }
}

TEST(TensorIntrinsic, AreFoundByName) {
  ASSERT_NE(find_tensor_intrinsic("scalar_matmul_f32"), nullptr);
  EXPECT_TRUE(find_tensor_intrinsic("scalar_matmul_f32")->available(Target()));
  EXPECT_EQ(find_tensor_intrinsic("no such"), nullptr);
}

}  // namespace
}  // namespace fettle
