// What these schedules compute; on CUDA where a device is.
#include "cuda/schedules.h"

#include "analysis/verify.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/testing.h"
#include "ir/annotations.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/get_loops.h"

namespace fettle::bench {
namespace {

using testing::TestSchedule;

TestSchedule cuda_schedule(const Func& func) {
  TestSchedule s(func, 0);
  s.set_target(std::make_shared<Target>(*parse_target("cuda -arch sm_90")));
  return s;
}

void check_compiles(const TestSchedule& s) {
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  if (has_nvrtc()) {
    EXPECT_OK(compile_cuda(*source, "sm_90"));
  }
}

TEST(CudaSchedules, GemmF32) {
  auto s = cuda_schedule(gemm_program(64, 128, 48, false));
  ASSERT_OK(schedule_gemm_f32(s, {.block_m = 32, .block_n = 64, .block_k = 8}));
  EXPECT_SAME_RESULT(s);
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  check_compiles(s);
}

TEST(CudaSchedules, GemmF16) {
  for (const int64_t stages : {1, 2, 3}) {
    auto s = cuda_schedule(gemm_program(64, 64, stages == 2 ? 256 : 128, true));
    ASSERT_OK(schedule_gemm_f16(s, {.block_m = 32,
                                    .block_n = 32,
                                    .block_k = 32,
                                    .warp_m = 32,
                                    .warp_n = 16,
                                    .stages = stages,
                                    .swizzle = stages > 1}));
    EXPECT_SAME_RESULT(s);
    EXPECT_SAME_ON_CUDA(s);
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    EXPECT_GOLDEN(*program);
    check_compiles(s);
  }
}

TEST(CudaSchedules, PersistentBlocksComputeTheSame) {
  auto s = cuda_schedule(gemm_program(64, 128, 48, false));
  ASSERT_OK(schedule_gemm_f32(s, {.block_m = 32, .block_n = 32, .block_k = 8}));
  const auto loops = get_loops(s, {s.block("C")});
  ASSERT_OK(loops);
  ASSERT_OK(annotate(s, {(*loops)[1], kPersistentKey, int64_t{3}}));
  EXPECT_SAME_ON_DEVICES(s);
  check_compiles(s);
}

TEST(CudaSchedules, OneBarrierAStep) {
  for (const bool half : {false, true}) {
    auto s = cuda_schedule(gemm_program(256, 256, 256, half));
    ASSERT_OK(half ? schedule_gemm_f16(s, {}) : schedule_gemm_f32(s, {}));
    EXPECT_OK(verify(s.func(), *s.target()));
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    EXPECT_EQ(testing::barriers_in(*program), 2);  // in the loop, and before what is left of the pipeline
  }
}

TEST(CudaSchedules, Stencil) {
  auto s = cuda_schedule(stencil_program(8, 512));
  ASSERT_OK(schedule_stencil(s, 4));
  EXPECT_SAME_RESULT(s);
  EXPECT_SAME_ON_DEVICES(s);
  check_compiles(s);
}

TEST(CudaSchedules, Rows) {
  for (const Func& func : {softmax_program(3, 256), layer_norm_program(3, 256)}) {
    auto s = cuda_schedule(func);
    ASSERT_OK(schedule_rows(s, 32));
    EXPECT_OK(verify(s.func(), *s.target()));
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    EXPECT_EQ(program->kernels.size(), 1u);
    EXPECT_GOLDEN(*program);
    check_compiles(s);
  }
}

}  // namespace
}  // namespace fettle::bench
