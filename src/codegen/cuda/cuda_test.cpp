// The text of kernels in CUDA C++; compiled where NVRTC is found.
#include "codegen/cuda/cuda_codegen.h"

#include <fmt/format.h>

#include "codegen/cuda/cuda_compile.h"
#include "codegen/cuda/run.h"
#include "codegen/device/testing.h"
#include "schedule/primitives/annotate.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/tensorize.h"
#include "schedule/primitives/vectorize.h"

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
  EXPECT_NE(source->find("__shared__ __align__(16) float"), std::string::npos);
  EXPECT_SAME_ON_CUDA(s);
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
  EXPECT_SAME_ON_CUDA(s);
  // OpenCL's devices need not have as much.
  const auto refused = lower_for_device(s.func(), *parse_target("opencl"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E230);
}

// A matrix product of f16 by two warps, whose tiles of 16 x 8 x 16 the tensor cores compute; `scope` of the sums.
Result<TestSchedule> warp_product(const char* scope) {
  TestSchedule s = gpu_schedule(
      "A: f16[64, 48]\nB: f16[48, 32]\n"
      "for i in 64: for j in 32: for k in 48: C[i, j] += f32(A[i, k]) * f32(B[k, j])",
      "cuda");
  const BlockRef c = s.block("C");
  // One nest over all its elements, by 2 x 32 threads.
  const auto by_threads = [&](BlockRef block, size_t outer) -> Result<> {
    FETTLE_TRY(const auto loops, get_loops(s, {block}));
    FETTLE_TRY(const LoopRef all, fuse(s, {{loops.begin() + static_cast<std::ptrdiff_t>(outer), loops.end()}}));
    FETTLE_TRY(const auto parts, split(s, {all, {kInfer, 2, 32}}));
    FETTLE_TRY_VOID(bind(s, {parts[1], "threadIdx.y"}));
    return bind(s, {parts[2], "threadIdx.x"});
  };
  FETTLE_TRY(const BlockRef back, cache_write(s, {c, 0, scope}));
  FETTLE_TRY(const auto loops, get_loops(s, {c}));
  FETTLE_TRY(const auto i, split(s, {loops[0], {kInfer, 2, 16}}));
  FETTLE_TRY(const auto j, split(s, {loops[1], {kInfer, 2, 8}}));
  FETTLE_TRY(const auto k, split(s, {loops[2], {kInfer, 16}}));
  FETTLE_TRY_VOID(reorder(s, {{i[0], j[0], k[0], i[1], j[1], i[2], j[2], k[1]}}));
  FETTLE_TRY_VOID(reverse_compute_at(s, {back, j[0]}));
  FETTLE_TRY_VOID(by_threads(back, 2));
  FETTLE_TRY(const BlockRef init, decompose_reduction(s, {c, k[0]}));
  FETTLE_TRY_VOID(by_threads(init, 2));
  for (int64_t read : {0, 1}) {
    FETTLE_TRY(const BlockRef copy, cache_read(s, {c, read, "shared", {}}));
    FETTLE_TRY_VOID(compute_at(s, {copy, k[0]}));
    FETTLE_TRY_VOID(by_threads(copy, 3));
  }
  FETTLE_TRY_VOID(bind(s, {i[0], "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {j[0], "blockIdx.x"}));
  FETTLE_TRY_VOID(bind(s, {i[1], "threadIdx.y"}));
  FETTLE_TRY_VOID(tensorize(s, {i[2], "mma_m16n8k16_f16"}));
  return s;
}

TEST(Cuda, WarpsUseTensorCores) {
  const auto s = warp_product("shared");
  ASSERT_OK(s);
  EXPECT_REPLAYS(*s);
  const auto program = lower_for_device(s->func(), *s->target());
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  EXPECT_NE(source->find("mma.sync.aligned.m16n8k16"), std::string::npos);
  if (!has_nvrtc()) GTEST_SKIP() << "printed; no NVRTC to compile it";
  for (const char* arch : {"sm_80", "sm_90"}) EXPECT_OK(compile_cuda(*source, arch));
  EXPECT_SAME_ON_CUDA(*s);
}

TEST(Cuda, AWarpsTileIsNotInOneThreadsMemory) {
  const auto s = warp_product("local");
  ASSERT_OK(s);
  EXPECT_ERROR(lower_for_device(s->func(), *s->target()), E301);
}

TEST(Cuda, FragmentsAreReachedByTilesAlone) {
  const auto s = warp_product("fragment");  // sums that single threads clear and copy
  ASSERT_OK(s);
  EXPECT_ERROR(lower_for_device(s->func(), *s->target()), E301);
  auto plain = gpu_schedule("for i in 64: B[i] = A[i]", "cuda");
  ASSERT_OK(cache_read(plain, {plain.block("B"), 0, "fragment", {}}));
  EXPECT_ERROR(lower_for_device(plain.func(), *plain.target()), E301);
  auto opencl = gpu_schedule("for i in 64: B[i] = A[i]");
  EXPECT_ERROR(cache_read(opencl, {opencl.block("B"), 0, "fragment", {}}), E219);
}

TEST(Cuda, VectorizedCopiesOfAlignedNeighboursAreOneAccess) {
  const std::pair<const char*, const char*> cases[] = {
      {"for i in 64: for j in 32: B[i, j] = A[i, j]", "float4"},
      {"A: f16[64, 32]\nB: f16[64, 32]\nfor i in 64: for j in 32: B[i, j] = A[i, j]", "uint2"},
      {"A: i8[64, 32]\nB: i8[64, 32]\nfor i in 64: for j in 32: B[i, j] = A[i, j]", "*(unsigned int *)"},
      {"for i in 64: for j in 32: B[i, j] = A[i, j + 1]", ""},              // begins anywhere
      {"A: f32[64, 33]\nfor i in 64: for j in 32: B[i, j] = A[i, j]", ""},  // and so do such rows
      {"for i in 64: for j in 32: B[i, j] = A[j, i]", ""},                  // no neighbours
      {"for i in 64: for j in 32: B[i, j] = A[i, j] + 1.0", "float4"},      // what is worked out, too
  };
  for (const auto& [text, expected] : cases) {
    auto s = gpu_schedule(text, "cuda");
    const auto j = split(s, {s.loop("j"), {kInfer, 4}});
    ASSERT_OK(j);
    ASSERT_OK(bind(s, {s.loop("i"), "blockIdx.x"}));
    ASSERT_OK(bind(s, {(*j)[0], "threadIdx.x"}));
    ASSERT_OK(vectorize(s, {(*j)[1]}));
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    const auto source = emit_cuda(*program);
    ASSERT_OK(source);
    EXPECT_EQ(source->find("*(const ") != std::string::npos, *expected != '\0') << *source;
    EXPECT_NE(source->find(expected), std::string::npos) << *source;
    EXPECT_SAME_ON_DEVICES(s);
  }
}

TEST(Cuda, HalvesAreConvertedByInstructions) {
  for (const char* type : {"f16", "bf16"}) {
    auto s =
        gpu_schedule(fmt::format("A: {0}[64]\nB: {0}[64]\nfor i in 64: B[i] = {0}(f32(A[i]) * 0.375)", type), "cuda");
    ASSERT_OK(bind(s, {s.loop("i"), "threadIdx.x"}));
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    const auto source = emit_cuda(*program);
    ASSERT_OK(source);
    EXPECT_NE(source->find(fmt::format("cvt.rn.{}.f32", type)), std::string::npos) << *source;
    EXPECT_EQ(source->find("round_"), std::string::npos) << *source;  // once is enough
    for (const char* arch : {"sm_80", "sm_90a", "compute_80"}) {
      if (!has_nvrtc()) break;
      EXPECT_OK(compile_cuda(*source, arch));
    }
    EXPECT_SAME_ON_DEVICES(s);
  }
}

// Where some lanes read zeros in place of memory, they are no copy: each is stored by itself.
TEST(Cuda, LanesThatReadUnderAConditionAreNoCopy) {
  auto s = gpu_schedule("A: f32[40]\nfor i in 64: B[i] = select(i < 40, A[i], 0.0)", "cuda");
  const auto parts = split(s, {s.loop("i"), {kInfer, 4}});
  ASSERT_OK(parts);
  ASSERT_OK(bind(s, {(*parts)[0], "threadIdx.x"}));
  ASSERT_OK(vectorize(s, {(*parts)[1]}));
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  const auto source = emit_cuda(*program);
  ASSERT_OK(source);
  EXPECT_SAME_ON_DEVICES(s);
}

// A thread that reads what it copied itself, where no barrier can stand, copies in the ordinary way.
TEST(Cuda, CopiesThatNoBarrierFollowsAreNotAsynchronous) {
  for (const bool is_async : {false, true}) {
    auto s = gpu_schedule("for i in 64: for j in 32: B[i, j] = A[i, j] * 2.0", "cuda");
    const auto loops = get_loops(s, {s.block("B")});
    ASSERT_OK(loops);
    ASSERT_OK(bind(s, {(*loops)[0], "threadIdx.x"}));
    const auto copy = cache_read(s, {s.block("B"), 0, "shared", {}});
    ASSERT_OK(copy);
    ASSERT_OK(compute_at(s, {*copy, (*loops)[0]}));
    const auto own = get_loops(s, {*copy});
    ASSERT_OK(own);
    const auto parts = split(s, {own->back(), {kInfer, 4}});
    ASSERT_OK(parts);
    ASSERT_OK(vectorize(s, {(*parts)[1]}));
    if (is_async) {
      ASSERT_OK(annotate(s, {(*parts)[1], "async_copy"}));
    }
    const auto program = lower_for_device(s.func(), *s.target());
    ASSERT_OK(program);
    const auto source = emit_cuda(*program);
    ASSERT_OK(source);
    EXPECT_EQ(testing::barriers_in(*program), 0);
    EXPECT_EQ(source->find("cp.async"), std::string::npos) << *source;
    EXPECT_SAME_ON_CUDA(s);
  }
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

TEST(Cuda, RunsWhereADeviceIs) {
  auto s = stencil(128);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  std::vector<float> a(5002), b(5000);
  for (size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17);
  const BufferArg args[] = {{a.data(), 20008}, {b.data(), 20000}};
  if (!has_cuda_device()) {
    const auto absent = run_cuda(*program, args);
    ASSERT_FALSE(absent);
    EXPECT_EQ(absent.error().code, ErrorCode::E710);
    GTEST_SKIP() << "no CUDA device, or no NVRTC to compile for it: " << absent.error().message;
  }
  ASSERT_EQ(program->host->params[0].buffer->name, "A");
  ASSERT_OK(run_cuda(*program, args));
  for (size_t i = 0; i < b.size(); ++i) ASSERT_EQ(b[i], a[i] + a[i + 2] * 0.5f) << i;
  const auto few = run_cuda(*program, std::span(args).first(1));
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, ErrorCode::E104);
  const auto broken = CudaModule::build("__global__ void f() { undeclared = 1; }");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::E302);
  const auto other = CudaModule::build("extern \"C\" __global__ void other() {}");
  ASSERT_OK(other);
  const auto lacking = other->run(*program, args);
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, ErrorCode::E710);
}

}  // namespace
}  // namespace fettle
