// Schedules for threads, run by OpenCL beside the interpreter.
#include "analysis/verify.h"
#include "codegen/device/testing.h"
#include "codegen/opencl/opencl_codegen.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/double_buffer.h"
#include "schedule/primitives/fuse.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/rfactor.h"
#include "schedule/primitives/software_pipeline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/storage_align.h"
#include "schedule/primitives/write_at.h"

namespace fettle {
namespace {

using testing::barriers_in;
using testing::gpu_schedule;
using testing::TestSchedule;

std::string gemm_text(int m, int n, int k) {
  return "for i in " + std::to_string(m) + ": for j in " + std::to_string(n) + ": for k in " + std::to_string(k) +
         ": C[i, j] += A[i, k] * B[k, j]";
}

Result<std::vector<LoopRef>> loops_of(TestSchedule& s, BlockRef block) { return get_loops(s, {block}); }

// Copies of what `block` reads, made at `loop` by ty x tx threads together.
Result<BlockRef> fetch(TestSchedule& s, BlockRef block, int64_t read, LoopRef loop, size_t outer, int ty, int tx) {
  FETTLE_TRY(const BlockRef copy, cache_read(s, {block, read, "shared", {}}));
  FETTLE_TRY_VOID(compute_at(s, {copy, loop}));
  FETTLE_TRY(const auto loops, loops_of(s, copy));
  FETTLE_TRY(const LoopRef all, fuse(s, {{loops.begin() + static_cast<std::ptrdiff_t>(outer), loops.end()}}));
  FETTLE_TRY(const auto parts, split(s, {all, {kInfer, ty, tx}, Tail::kGuard}));
  FETTLE_TRY_VOID(bind(s, {parts[1], "threadIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {parts[2], "threadIdx.x"}));
  return copy;
}

struct Gemm {
  TestSchedule s;
  BlockRef c{}, a_shared{}, b_shared{}, back{};
  LoopRef k{};
};

// Tiles of 8 x 8 by 4 x 4 threads, `step` steps of k at a time; `virtual_threads` more of each tile in every thread.
Result<> shared_gemm(Gemm& g, int virtual_threads, int step = 5) {
  TestSchedule& s = g.s;
  g.c = s.block("C");
  FETTLE_TRY(g.back, cache_write(s, {g.c, 0, "local"}));
  FETTLE_TRY(const auto loops, loops_of(s, g.c));
  FETTLE_TRY(const auto i, split(s, {loops[0], {kInfer, virtual_threads, 4, 2}, Tail::kGuard}));
  FETTLE_TRY(const auto j, split(s, {loops[1], {kInfer, virtual_threads, 4, 2}, Tail::kGuard}));
  FETTLE_TRY(const auto k, split(s, {loops[2], {kInfer, step}, Tail::kGuard}));
  FETTLE_TRY_VOID(reorder(s, {{i[0], j[0], k[0], i[1], j[1], i[2], j[2], k[1], i[3], j[3]}}));
  g.k = k[0];
  FETTLE_TRY_VOID(reverse_compute_at(s, {g.back, j[0]}));
  FETTLE_TRY(const auto back, loops_of(s, g.back));
  FETTLE_TRY(const auto bi, split(s, {back[2], {virtual_threads, 4, 2}, Tail::kGuard}));
  FETTLE_TRY(const auto bj, split(s, {back[3], {virtual_threads, 4, 2}, Tail::kGuard}));
  FETTLE_TRY_VOID(reorder(s, {{bi[0], bj[0], bi[1], bj[1], bi[2], bj[2]}}));
  FETTLE_TRY_VOID(bind(s, {i[0], "blockIdx.y"}));
  FETTLE_TRY_VOID(bind(s, {j[0], "blockIdx.x"}));
  for (const auto& [y, x] : {std::pair(i, j), std::pair(bi, bj)}) {
    const size_t at = y.size() - 3;
    FETTLE_TRY_VOID(bind(s, {y[at], "vthread.y"}));
    FETTLE_TRY_VOID(bind(s, {x[at], "vthread.x"}));
    FETTLE_TRY_VOID(bind(s, {y[at + 1], "threadIdx.y"}));
    FETTLE_TRY_VOID(bind(s, {x[at + 1], "threadIdx.x"}));
  }
  FETTLE_TRY(g.a_shared, fetch(s, g.c, 0, g.k, 3, 4, 4));
  FETTLE_TRY(g.b_shared, fetch(s, g.c, 1, g.k, 3, 4, 4));
  return {};
}

TEST(OpenCl, ElementwiseWithRaggedEnds) {
  auto s = gpu_schedule("for i in 1000: B[i] = A[i] * 2.0 + 1.0");
  const auto i = split(s, {s.loop("i"), {kInfer, 64}, Tail::kGuard});
  ASSERT_OK(i);
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "threadIdx.x"}));
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_GOLDEN(to_text(*program) + "\n" + *emit_opencl(*program));
}

TEST(OpenCl, WithoutThreads) {
  auto s = gpu_schedule("for i in 9: B[i] = A[i] * 2.0\nfor i in 9: for j in 5: C[i] += B[i] * D[j]");
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 2u);
}

TEST(OpenCl, GemmWithSharedTiles) {
  Gemm g{gpu_schedule(gemm_text(33, 21, 19))};
  ASSERT_OK(shared_gemm(g, 1));
  EXPECT_SAME_RESULT(g.s);
  EXPECT_SAME_ON_DEVICES(g.s);
  const auto program = lower_for_device(g.s.func(), *g.s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 1u);
  EXPECT_EQ(barriers_in(*program), 2);  // after the copies, and before the next ones
  EXPECT_GOLDEN(*program);
}

TEST(OpenCl, GemmWithVirtualThreads) {
  Gemm g{gpu_schedule(gemm_text(33, 21, 19))};
  ASSERT_OK(shared_gemm(g, 2));
  EXPECT_SAME_ON_DEVICES(g.s);
}

TEST(OpenCl, GemmDoubleBuffered) {
  Gemm g{gpu_schedule(gemm_text(32, 24, 20))};
  ASSERT_OK(shared_gemm(g, 1, 4));
  ASSERT_OK(double_buffer(g.s, {g.a_shared, 0}));
  ASSERT_OK(double_buffer(g.s, {g.b_shared, 0}));
  EXPECT_SAME_ON_DEVICES(g.s);
  const auto program = lower_for_device(g.s.func(), *g.s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.begin()->second.shared_bytes, 2 * (32 + 32) * 4);
  EXPECT_GOLDEN(*program);
}

TEST(OpenCl, GemmPipelined) {
  for (const std::vector<int64_t>& stages : {std::vector<int64_t>{0, 0, 1}, {0, 1, 2}, {0, 0, 3}}) {
    Gemm g{gpu_schedule(gemm_text(16, 24, 20))};
    ASSERT_OK(shared_gemm(g, 1, 4));
    ASSERT_OK(software_pipeline(g.s, {g.k, stages, {0, 1, 2}}));
    EXPECT_SAME_ON_DEVICES(g.s);
  }
}

TEST(OpenCl, StorageAlignInSharedMemory) {
  Gemm g{gpu_schedule(gemm_text(16, 16, 10))};
  ASSERT_OK(shared_gemm(g, 1));
  ASSERT_OK(storage_align(g.s, {g.a_shared, 0, 0, 8, 1}));
  EXPECT_SAME_ON_DEVICES(g.s);
}

// The part of A that a step needs is fetched inside the loop over threads, each of which fetches its share.
TEST(OpenCl, CooperativeFetchingInsideTheThreads) {
  auto s = gpu_schedule("for i in 40: for k in 19: C[i] += A[k] * B[i, k]");
  const BlockRef c = s.block("C");
  const auto loops = loops_of(s, c);
  const auto i = split(s, {(*loops)[0], {kInfer, 16}, Tail::kGuard});
  const auto k = split(s, {(*loops)[1], {kInfer, 5}, Tail::kGuard});
  ASSERT_OK(k);
  const auto copy = cache_read(s, {c, 0, "global", {}});  // its scope follows from where it is filled
  ASSERT_OK(copy);
  ASSERT_OK(compute_at(s, {*copy, (*k)[0]}));
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "threadIdx.x"}));
  ASSERT_OK(bind(s, {loops_of(s, *copy)->back(), "threadIdx.x"}));
  EXPECT_SAME_RESULT(s);
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(barriers_in(*program), 2);
  EXPECT_GOLDEN(*program);
}

// As TVM's schedules have it: tiles of A and B are fetched inside the loops over threads, by all threads for all.
TEST(OpenCl, GemmThatFetchesInsideTheThreads) {
  auto s = gpu_schedule(gemm_text(33, 21, 19));
  const BlockRef c = s.block("C");
  const auto back = cache_write(s, {c, 0, "local"});
  ASSERT_OK(back);
  const auto loops = loops_of(s, c);
  const auto i = split(s, {(*loops)[0], {kInfer, 4, 2}, Tail::kGuard});
  const auto j = split(s, {(*loops)[1], {kInfer, 4, 2}, Tail::kGuard});
  const auto k = split(s, {(*loops)[2], {kInfer, 4}, Tail::kGuard});
  ASSERT_OK(k);
  ASSERT_OK(reorder(s, {{(*i)[0], (*j)[0], (*i)[1], (*j)[1], (*k)[0], (*k)[1], (*i)[2], (*j)[2]}}));
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.y"}));
  ASSERT_OK(bind(s, {(*j)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "threadIdx.y"}));
  ASSERT_OK(bind(s, {(*j)[1], "threadIdx.x"}));
  ASSERT_OK(reverse_compute_at(s, {*back, (*j)[1]}));
  for (int64_t read : {0, 1}) ASSERT_OK(fetch(s, c, read, (*k)[0], 5, 4, 4));
  EXPECT_SAME_RESULT(s);
  EXPECT_OK(verify(s.func(), *s.target()));
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(barriers_in(*program), 2);
  EXPECT_EQ(program->kernels.begin()->second.shared_bytes, 256);
}

// Partial sums by 8 threads, then their sum by one of them.
TEST(OpenCl, ReductionAcrossThreads) {
  auto s = gpu_schedule("for i in 5: for k in 64: C[i] += A[i, k]");
  const auto k = split(s, {s.loop("k"), {kInfer, 8}, Tail::kGuard});
  ASSERT_OK(k);
  const BlockRef c = s.block("C");
  const auto partial = rfactor(s, {c, (*k)[1], 0});
  ASSERT_OK(partial);
  const auto sum = loops_of(s, c);
  ASSERT_OK(sum);
  ASSERT_OK(compute_at(s, {*partial, (*sum)[0]}));
  ASSERT_OK(bind(s, {(*sum)[0], "blockIdx.x"}));
  const auto parts = loops_of(s, *partial);
  ASSERT_OK(parts);
  ASSERT_OK(bind(s, {(*parts)[parts->size() - 2], "threadIdx.x"}));
  EXPECT_SAME_RESULT(s);
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 1u);
  EXPECT_EQ(barriers_in(*program), 1);
  EXPECT_GOLDEN(*program);
}

// The shape of a softmax: maximum, differences, their sum, quotients; one row a block, 16 threads; exact in integers.
constexpr const char* kRows = R"(func rows(X: f32[6, 37], Y: f32[6, 37] output):
  alloc M: f32[6]
  alloc E: f32[6, 37]
  alloc S: f32[6]
  for i in 6:
    for k in 37:
      block M(vi: spatial[6] = i, vk: reduce[37] = k):
        reads X[vi, vk]
        writes M[vi]
        init:
          M[vi] = -inf
        M[vi] = max(M[vi], X[vi, vk])
  for i in 6:
    for j in 37:
      block E(vi: spatial[6] = i, vj: spatial[37] = j):
        reads X[vi, vj], M[vi]
        writes E[vi, vj]
        E[vi, vj] = (X[vi, vj] - M[vi]) * (X[vi, vj] - M[vi])
  for i in 6:
    for k in 37:
      block S(vi: spatial[6] = i, vk: reduce[37] = k):
        reads E[vi, vk]
        writes S[vi]
        init:
          S[vi] = 0.0
        S[vi] = S[vi] + E[vi, vk]
  for i in 6:
    for j in 37:
      block Y(vi: spatial[6] = i, vj: spatial[37] = j):
        reads E[vi, vj], S[vi]
        writes Y[vi, vj]
        Y[vi, vj] = E[vi, vj] * S[vi]
)";

TEST(OpenCl, RowsInOneKernel) {
  auto s = gpu_schedule(kRows);
  const auto rows = loops_of(s, s.block("Y"));
  ASSERT_OK(rows);
  for (const char* name : {"S", "E", "M"}) ASSERT_OK(compute_at(s, {s.block(name), (*rows)[0]}));
  ASSERT_OK(bind(s, {(*rows)[0], "blockIdx.x"}));
  for (const char* name : {"E", "Y"}) {
    const auto inner = loops_of(s, s.block(name));
    ASSERT_OK(inner);
    const auto parts = split(s, {inner->back(), {kInfer, 16}, Tail::kGuard});
    ASSERT_OK(parts);
    ASSERT_OK(bind(s, {(*parts)[1], "threadIdx.x"}));
  }
  EXPECT_SAME_RESULT(s);
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 1u);
  EXPECT_EQ(barriers_in(*program), 3);  // M → E → S → Y
  EXPECT_GOLDEN(*program);
}

TEST(OpenCl, SizesThatAreKnownLater) {
  auto s = gpu_schedule(R"(func f(A: f32[n], B: f32[n] output, n: i64 in 1..4096):
  for i in n:
    block B(vi: spatial[n] = i):
      reads A[vi]
      writes B[vi]
      B[vi] = A[vi] + 1.0
)");
  const auto i = split(s, {s.loop("i"), {kInfer, 32}, Tail::kGuard});
  ASSERT_OK(i);
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "threadIdx.x"}));
  for (const int64_t n : {1, 32, 33, 100}) EXPECT_TRUE(testing::same_on_devices(s.original, s.func(), {n})) << n;
}

TEST(OpenCl, StridesThatAreKnownLater) {
  auto s = gpu_schedule(R"(func f(A: f32[5, n], B: f32[5, n] output, n: i64 in 1..64):
  for i in 5:
    for j in 1:
      block B(vi: spatial[5] = i, vj: spatial[n] = j):
        reads A[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = A[vi, vj] + 1.0
)");
  ASSERT_OK(bind(s, {s.loop("i"), "threadIdx.x"}));
  EXPECT_TRUE(testing::same_on_devices(s.original, s.func(), {1}));
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.begin()->second.func->int_params.size(), 1u);
}

// What a reduction goes on with lives as long as its loop, wherever it is copied from.
TEST(OpenCl, SumsLiveAsLongAsTheirReduction) {
  for (const char* scope : {"local", "shared"}) {
    auto s = gpu_schedule("for i in 9: for k in 5: for j in 4: C[i, j] += A[i, k] * B[k, j]");
    const auto loops = loops_of(s, s.block("C"));
    ASSERT_OK(loops);
    ASSERT_OK(write_at(s, {(*loops)[2], s.block("C"), 0, scope}));
    ASSERT_OK(bind(s, {(*loops)[0], "blockIdx.x"}));
    EXPECT_SAME_RESULT(s);
    EXPECT_SAME_ON_DEVICES(s);
  }
}

TEST(OpenCl, AHostLoopAroundLaunches) {
  auto s = gpu_schedule("for t in 3: for i in 40: B[t, i] = A[i, t] + 1.0");
  const auto i = split(s, {s.loop("i"), {kInfer, 16}, Tail::kGuard});
  ASSERT_OK(i);
  ASSERT_OK(bind(s, {(*i)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*i)[1], "threadIdx.x"}));
  EXPECT_SAME_ON_DEVICES(s);
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  EXPECT_GOLDEN(*program);
}

TEST(OpenCl, ElementTypes) {
  for (const char* type : {"f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"}) {
    auto s =
        gpu_schedule("A: " + std::string(type) + "[50]\nB: " + type + "[50]\nfor i in 50: B[i] = A[i] * A[i] + A[i]");
    ASSERT_OK(bind(s, {s.loop("i"), "threadIdx.x"}));
    EXPECT_SAME_ON_DEVICES(s) << type;
  }
}

// A scatter: threads share rows and columns, and each takes the updates in turn.
TEST(OpenCl, UpdatesKeepTheirOrder) {
  auto s = gpu_schedule(R"(func scatter(I: i64[8, 20], U: f32[8, 20, 16], Y: f32[8, 9, 16] output):
  for x in 8:
    for y in 9:
      for z in 16:
        block Y_init(vx: spatial[8] = x, vy: spatial[9] = y, vz: spatial[16] = z):
          writes Y[vx, vy, vz]
          Y[vx, vy, vz] = 1.0
  for b in 8:
    for u in 20:
      for c in 16:
        block Y(vb: spatial[8] = b, vu: scan[20] = u, vc: spatial[16] = c):
          reads I[vb, vu], Y[vb, 0 +: 9, vc], U[vb, vu, vc]
          writes Y[vb, 0 +: 9, vc]
          let place = I[vb, vu] + 2
          if 0 <= place && place < 9:
            Y[vb, place, vc] = Y[vb, place, vc] * 0.5 + U[vb, vu, vc]
)");
  const auto loops = loops_of(s, s.block("Y"));
  ASSERT_OK(loops);
  ASSERT_OK(reorder(s, {{(*loops)[0], (*loops)[2], (*loops)[1]}}));
  ASSERT_OK(bind(s, {(*loops)[0], "blockIdx.x"}));
  ASSERT_OK(bind(s, {(*loops)[2], "threadIdx.x"}));
  EXPECT_FALSE(bind(s, {(*loops)[1], "threadIdx.y"}).has_value());
  EXPECT_SAME_ON_DEVICES(s);
}

// Statements of one's own with a number in a register: one row a thread.
TEST(OpenCl, StatementsForEachRow) {
  auto s = gpu_schedule(R"(func positions(X: i64[12, 10], Y: i64[12, 10] output):
  for row in 12:
    block Y(vr: spatial[12] = row):
      alloc found: i64[1] @register
      reads X[vr, 0 +: 10]
      writes Y[vr, 0 +: 10]
      found[0] = 0
      for i in 10:
        Y[vr, i] = -1
        if X[vr, i] > 0:
          let place = found[0]
          if 0 <= place && place < 10:
            Y[vr, place] = i
          found[0] = place + 1
)");
  ASSERT_OK(bind(s, {s.loop("row"), "threadIdx.x"}));
  EXPECT_SAME_ON_DEVICES(s);
}

TEST(OpenCl, AKernelThatDoesNotBuildShowsTheLog) {
  if (has_cuda_device() && !has_opencl()) GTEST_SKIP() << "a machine with CUDA and without OpenCL";
  auto s = gpu_schedule("for i in 4: B[i] = A[i]");
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  float memory[2][4] = {};
  const BufferArg args[] = {{memory[0], 16}, {memory[1], 16}};
  const auto broken = OpenClModule::build("__kernel void f_kernel0() { undeclared = 1; }");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code, ErrorCode::E302);
  EXPECT_NE(broken.error().message.find("undeclared"), std::string::npos) << broken.error().message;
  const auto other = OpenClModule::build("__kernel void other() {}");
  ASSERT_OK(other);
  const auto absent = other->run(*program, args);
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, ErrorCode::E710);
  const auto few = run_opencl(*program, std::span(args).first(1));
  ASSERT_FALSE(few);
  EXPECT_EQ(few.error().code, ErrorCode::E104);
}

TEST(OpenCl, AKernelThatDoesNotEndIsGivenUp) {
  if (has_cuda_device() && !has_opencl()) GTEST_SKIP() << "a machine with CUDA and without OpenCL";
  auto s = gpu_schedule("for i in 4: B[i] = A[i]");
  const auto program = lower_for_device(s.func(), *s.target());
  ASSERT_OK(program);
  float memory[2][4] = {};
  const BufferArg args[] = {{memory[0], 16}, {memory[1], 16}};
  // Less than a second of work, so that the device's threads end with the test.
  const auto slow = OpenClModule::build(
      "__kernel void main_kernel0(__global float *B, __global const float *A) {\n"
      "  volatile long n = 0;\n"
      "  for (long i = 0; i < 200000000L; ++i) n = i;\n"
      "}\n");
  ASSERT_OK(slow);
  const auto late = slow->run(*program, args, {}, {.timeout_s = 0.05});
  ASSERT_FALSE(late);
  EXPECT_EQ(late.error().code, ErrorCode::E402);
  EXPECT_SAME_ON_DEVICES(s);  // on a new device
}

}  // namespace
}  // namespace fettle
