// The text of kernels in CUDA C++; compiled where NVRTC is found.
#include "codegen/cuda/cuda_codegen.h"

#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/testing.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/split.h"

namespace fettle {
namespace {

using testing::gpu_schedule;
using testing::TestSchedule;

// A stencil whose input is fetched to shared memory; `width` threads a block.
TestSchedule stencil(int width, const char* target = "cuda") {
  auto s = gpu_schedule("for i in 5000: B[i] = A[i] + A[i + 2] * 0.5", target);
  const auto i = split(s, {s.loop("i"), {kInfer, width}, Tail::kGuard});
  EXPECT_OK(i);
  const auto copy = cache_read(s, {s.block("B"), 0, "shared", {}});
  EXPECT_OK(copy);
  EXPECT_OK(compute_at(s, {*copy, (*i)[0]}));
  const auto loops = get_loops(s, {*copy});
  EXPECT_OK(loops);
  const auto fetched = split(s, {loops->back(), {kInfer, width}, Tail::kGuard});
  EXPECT_OK(fetched);
  EXPECT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  EXPECT_OK(bind(s, {(*i)[1], "threadIdx.x"}));
  EXPECT_OK(bind(s, {(*fetched)[1], "threadIdx.x"}));
  return s;
}

TEST(Cuda, PrintsKernels) {
  auto s = stencil(128);
  EXPECT_SAME_RESULT(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  EXPECT_GOLDEN(*source);
  EXPECT_NE(source->find("__shared__ float"), std::string::npos);
}

TEST(Cuda, LargeSharedMemoryIsDynamic) {
  auto s = gpu_schedule("for i in 8: for j in 16384: B[i, j] = A[i, 16383 - j]", "cuda");
  const auto loops = get_loops(s, {s.block("B")});
  ASSERT_OK(loops);
  const auto copy = cache_read(s, {s.block("B"), 0, "shared", {}});
  ASSERT_OK(copy);
  ASSERT_OK(compute_at(s, {*copy, (*loops)[0]}));
  ASSERT_OK(bind(s, {(*loops)[0], "blockIdx.x"}));
  for (const BlockRef block : {*copy, s.block("B")}) {
    const auto inner = get_loops(s, {block});
    const auto parts = split(s, {inner->back(), {kInfer, 256}, Tail::kGuard});
    ASSERT_OK(parts);
    ASSERT_OK(bind(s, {(*parts)[1], "threadIdx.x"}));
  }
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.begin()->second.shared_bytes, 65536);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  EXPECT_NE(source->find("extern __shared__"), std::string::npos) << *source;
  // OpenCL's devices need not have as much.
  const auto refused = lower_for_device(s.func(), *parse_target("opencl"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E230);
}

TEST(Cuda, CompilesWhereNvrtcIs) {
  if (!has_nvrtc()) {
    EXPECT_ERROR(compile_cuda("", "sm_80"), E708);
    GTEST_SKIP() << "no NVRTC; FETTLE_NVRTC may name it";
  }
  for (const char* arch : {"sm_80", "sm_90", "compute_80"}) {
    auto s = stencil(128);
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    const auto code = compile_cuda(*emit_cuda(*program), arch);
    ASSERT_OK(code);
    EXPECT_GT(code->size(), 500u);
  }
  const auto wrong = compile_cuda("__global__ void f() { undeclared = 1; }", "sm_80");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::E302);
  EXPECT_NE(wrong.error().message.find("undeclared"), std::string::npos);
}

}  // namespace
}  // namespace fettle
