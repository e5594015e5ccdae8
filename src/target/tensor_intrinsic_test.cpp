#include "target/tensor_intrinsic.h"

#include <gtest/gtest.h>

#include "ir/interpret.h"
#include "ir/text.h"

namespace fettle {
namespace {

int64_t elements(const Param& param) {
  int64_t count = 1;
  for (const Expr& extent : param.buffer->shape) count *= *as_int(extent);
  return count;
}

TEST(TensorIntrinsic, ImplementationsTakeWhatTheMeaningsTake) {
  ASSERT_FALSE(tensor_intrinsics().empty());
  for (const TensorIntrinsicDef* intrinsic : tensor_intrinsics()) {
    SCOPED_TRACE(intrinsic->name);
    const Func meaning = meaning_of(*intrinsic), implementation = implementation_of(*intrinsic);
    EXPECT_EQ(meaning->name, intrinsic->name);
    EXPECT_EQ(implementation->name, intrinsic->name);
    ASSERT_EQ(meaning->params.size(), implementation->params.size());
    size_t strides = 0;
    for (size_t p = 0; p < meaning->params.size(); ++p) {
      const Param &own = meaning->params[p], &other = implementation->params[p];
      EXPECT_EQ(own.buffer->dtype, other.buffer->dtype);
      EXPECT_EQ(own.kind, other.kind);
      EXPECT_EQ(other.buffer->rank(), 1);
      EXPECT_EQ(elements(own), elements(other));
      strides += own.buffer->shape.size() - 1;
    }
    EXPECT_EQ(implementation->int_params.size(), strides);
    const TileNest nest = tile_nest(meaning.root().body);
    ASSERT_TRUE(nest.block && nest.store);
    EXPECT_FALSE(nest.block->init);
    EXPECT_EQ(nest.loops.size(), nest.block->iters.size());
  }
}

// Those of machine instructions are run where they are compiled (codegen/llvm).
TEST(TensorIntrinsic, TheScalarOneComputesItsMeaning) {
  const TensorIntrinsicDef& intrinsic = *find_tensor_intrinsic("scalar_matmul_f32");
  std::vector<float> results[2];
  for (int f = 0; f < 2; ++f) {
    const Func func = f ? implementation_of(intrinsic) : meaning_of(intrinsic);
    std::vector<std::vector<float>> data;
    for (const Param& param : func->params) {
      data.emplace_back(static_cast<size_t>(elements(param)));
      for (size_t i = 0; i < data.back().size(); ++i)
        data.back()[i] = static_cast<float>((i * 5 + data.size()) % 7) - 3.0f;
    }
    std::vector<BufferArg> args;
    for (auto& d : data) args.push_back({d.data(), static_cast<int64_t>(d.size() * sizeof(float))});
    const auto done = interpret(func, args, f ? std::vector<int64_t>{4, 4, 4} : std::vector<int64_t>{});
    ASSERT_TRUE(done) << done.error().to_string();
    results[f] = data.back();
  }
  EXPECT_EQ(results[0], results[1]);
}

TEST(TensorIntrinsic, FitTheirTargets) {
  const auto has = [](const char* target, const char* name) {
    return find_tensor_intrinsic(name)->available(parse_target(target).value());
  };
  EXPECT_TRUE(has("x86-64-avx2", "vpmaddwd_s16s8_256"));
  EXPECT_FALSE(has("x86-64-avx2", "vpdpbusd_512"));
  EXPECT_FALSE(has("x86-64-avx512", "vpdpbusd_512"));  // the level of the psABI is without VNNI
  EXPECT_FALSE(has("x86-64-avx512", "neon_sdot"));
  EXPECT_TRUE(has("x86-64-amx", "amx_bf16"));
  EXPECT_TRUE(has("x86-64-amx", "vpdpbusd_512"));
  EXPECT_FALSE(has("x86-64-avx512", "amx_u8s8"));
  EXPECT_TRUE(has("cuda -arch sm_90", "mma_m16n8k16_f16"));
  EXPECT_FALSE(has("opencl", "mma_m16n8k16_f16"));
  Target vnni = parse_target("x86-64-avx512").value();
  vnni.features += ",+avx512vnni";
  EXPECT_TRUE(find_tensor_intrinsic("vpdpbusd_512")->available(vnni));
  EXPECT_TRUE(find_tensor_intrinsic("vpdpbusd_256")->available(vnni));
  vnni.kind = "c";
  EXPECT_FALSE(find_tensor_intrinsic("vpdpbusd_512")->available(vnni));
}

TEST(TensorIntrinsic, AreFoundByName) {
  ASSERT_NE(find_tensor_intrinsic("scalar_matmul_f32"), nullptr);
  EXPECT_TRUE(find_tensor_intrinsic("scalar_matmul_f32")->available(Target()));
  EXPECT_EQ(find_tensor_intrinsic("no such"), nullptr);
}

}  // namespace
}  // namespace fettle
