#include "lower/device/device.h"

#include <fmt/format.h>

#include "analysis/verify.h"
#include "arith/int_eval.h"
#include "lower/device/passes.h"
#include "lower/passes/passes.h"
#include "schedule/primitives/bind.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/set_axis_separator.h"
#include "schedule/primitives/split.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

Target opencl() { return *parse_target("opencl"); }

Func parsed(const std::string& text) {
  const auto func = parse_func(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

// T is filled under one loop over threads and read under another one; `write` and `read` index it.
std::string two_nests(const std::string& scope, const std::string& write, const std::string& read, int threads = 8,
                      const std::string& axis = "threadIdx.x") {
  return R"(func f(A: f32[4, 8], B: f32[4, 8] output):
  alloc T: f32[4, 16])" +
         (scope.empty() ? "" : " @" + scope) + R"(
  for b in 4 thread axis("blockIdx.x"):
    for t in 8 thread axis("threadIdx.x"):
      block T(vb: spatial[4] = b, vt: spatial[8] = t):
        reads A[vb, vt]
        writes T[vb, )" +
         write + R"(]
        T[vb, )" +
         write + R"(] = A[vb, vt] * 2.0
    for u in )" +
         std::to_string(threads) + " thread axis(\"" + axis + R"("):
      block B(wb: spatial[4] = b, wu: spatial[8] = u):
        reads T[wb, )" +
         read + R"(]
        writes B[wb, wu]
        B[wb, wu] = T[wb, )" +
         read + R"(] + 1.0
)";
}

int barriers(const Result<DeviceProgram>& program) {
  EXPECT_OK(program);
  if (!program) return -1;
  const std::string text = to_text(*program);
  int count = 0;
  for (size_t at = text.find("barrier()"); at != std::string::npos; at = text.find("barrier()", at + 1)) ++count;
  return count;
}

// What a block works out statement by statement, with numbers that it keeps to itself, is one kernel.
TEST(Device, ABlockWithoutLoopsIsOneKernel) {
  const auto program = lower_for_device(parsed(R"(func f(A: f32[8], B: i64[] output):
  block B():
    alloc found: i64[1] @register
    reads A[0 +: 8]
    writes B[]
    found[0] = 0
    for i in 8:
      if A[i] != 0.0:
        found[0] = found[0] + 1
    B[] = found[0]
)"),
                                        opencl());
  ASSERT_OK(program);
  ASSERT_EQ(program->kernels.size(), 1u) << to_text(*program);
  EXPECT_EQ(program->kernels.begin()->second.block[0], 1);
}

// An axis is as long as the target has it, and a guard says how many blocks there are.
TEST(Device, BlocksBeyondAGuardAreNotLaunched) {
  const auto program = lower_for_device(parsed(R"(func f(A: f32[n, 4], B: f32[n, 4] output, n: i64 in 1..1000000):
  for h in (n + 999) // 1000:
    for b in 1000 thread axis("blockIdx.x"):
      for t in 4 thread axis("threadIdx.x"):
        block B(vi: spatial[n] = h * 1000 + b, vt: spatial[4] = t) where h * 1000 + b < n:
          reads A[vi, vt]
          writes B[vi, vt]
          B[vi, vt] = A[vi, vt] + 1.0
)"),
                                        opencl());
  ASSERT_OK(program);
  ASSERT_EQ(program->kernels.size(), 1u);
  const DeviceKernel& kernel = program->kernels.begin()->second;
  IntEnv known;
  const auto blocks = [&](int64_t n, int64_t h) {
    known.set(kernel.func->int_params[0].var.get(), n);
    known.set(kernel.func->int_params[1].var.get(), h);
    int64_t value = -1;
    EXPECT_EQ(evaluate_int(kernel.grid[0], known, value), IntProblem::kNone) << to_text(*program);
    return value;
  };
  EXPECT_EQ(blocks(7, 0), 7);
  EXPECT_EQ(blocks(2500, 0), 1000);
  EXPECT_EQ(blocks(2500, 2), 500);
}

TEST(Device, ABarrierWhereAnotherThreadWrote) {
  EXPECT_EQ(barriers(lower_for_device(parsed(two_nests("", "vt", "7 - wu")), opencl())), 1);
  EXPECT_EQ(barriers(lower_for_device(parsed(two_nests("shared", "vt * 2", "wu")), opencl())), 1);
}

TEST(Device, NoBarrierWhereAThreadReadsWhatItWrote) {
  EXPECT_EQ(barriers(lower_for_device(parsed(two_nests("", "vt", "wu")), opencl())), 0);
  EXPECT_EQ(barriers(lower_for_device(parsed(two_nests("shared", "vt * 2 + 1", "wu * 2 + 1")), opencl())), 0);
  // The other half of the buffer.
  EXPECT_EQ(barriers(lower_for_device(parsed(two_nests("shared", "vt", "wu + 8")), opencl())), 0);
}

TEST(Device, AThreadKeepsToWhatItWrote) {
  EXPECT_OK(lower_for_device(parsed(two_nests("local", "vt", "wu")), opencl()));
  EXPECT_ERROR(lower_for_device(parsed(two_nests("local", "vt", "7 - wu")), opencl()), E301);
  EXPECT_ERROR(lower_for_device(parsed(two_nests("local", "vt", "wu", 4)), opencl()), E301);
  EXPECT_ERROR(lower_for_device(parsed(two_nests("local", "vt", "wu", 8, "threadIdx.y")), opencl()), E301);
}

// A thread is one iteration of the outer loop: it cannot be another one of the inner.
TEST(Device, RefusesThreadsInsideOfThemselves) {
  EXPECT_ERROR(lower_for_device(parsed(R"(func f(A: f32[5, 3], B: f32[5, 3] output):
  for t in 5 thread axis("threadIdx.x"):
    for u in 3 thread axis("threadIdx.x"):
      block B(vt: spatial[5] = t, vu: spatial[3] = u):
        reads A[vt, vu]
        writes B[vt, vu]
        B[vt, vu] = A[vt, vu]
)"),
                                opencl()),
               E301);
}

// What a thread reads of its part it wrote itself: of its tiles all, of its neighbours' elements nothing.
TEST(Device, AThreadReadsWithinWhatItWrote) {
  const auto nests = [](int written, int read, int step, const std::string& where = "") {
    return fmt::format(R"(func f(A: f32[40], B: f32[40] output):
  alloc T: f32[40] @local
  for b in 1 thread axis("blockIdx.x"):
    for t in 8 thread axis("threadIdx.x"):
      for i in {0}:
        block T(vt: spatial[40] = t * {2} + i){3}:
          reads A[vt]
          writes T[vt]
          T[vt] = A[vt]
    for u in 8 thread axis("threadIdx.x"):
      for j in {1}:
        block B(vu: spatial[40] = u * {2} + j):
          reads T[vu]
          writes B[vu]
          B[vu] = T[vu]
)",
                       written, read, step, where);
  };
  EXPECT_OK(lower_for_device(parsed(nests(4, 4, 4)), opencl()));
  EXPECT_OK(lower_for_device(parsed(nests(4, 3, 4)), opencl()));
  EXPECT_ERROR(lower_for_device(parsed(nests(4, 5, 4)), opencl()), E301);
  EXPECT_ERROR(lower_for_device(parsed(nests(1, 2, 1)), opencl()), E301);
  EXPECT_ERROR(lower_for_device(parsed(nests(4, 4, 3, " where i < 3")), opencl()), E301);
  EXPECT_OK(lower_for_device(parsed(nests(4, 3, 3, " where i < 3")), opencl()));
}

// Only thread 0 has written its own.
TEST(Device, AThreadReadsWhereItWrote) {
  const auto nests = [](const char* first, const char* second) {
    return fmt::format(R"(func f(A: f32[8], B: f32[8] output):
  alloc T: f32[1] @local
  for b in 1 thread axis("blockIdx.x"):
    for t in 8 thread axis("threadIdx.x"):
      block T(vt: spatial[1] = 0){}:
        reads A[vt]
        writes T[vt]
        T[vt] = A[vt]
    for u in 8 thread axis("threadIdx.x"):
      block B(vu: spatial[8] = u){}:
        reads T[0]
        writes B[vu]
        B[vu] = T[0]
)",
                       first, second);
  };
  EXPECT_ERROR(lower_for_device(parsed(nests(" where t < 1", "")), opencl()), E301);
  EXPECT_ERROR(lower_for_device(parsed(nests(" where t < 5", " where u < 6")), opencl()), E301);
  EXPECT_OK(lower_for_device(parsed(nests(" where t < 6", " where u < 5")), opencl()));
}

// The prologue of a double buffer runs where there is an iteration at all: all threads agree on that.
TEST(Device, ThreadsMeetUnderAConditionOfAll) {
  EXPECT_EQ(barriers(lower_for_device(parsed(R"(func f(A: f32[n, 4], B: f32[4] output, n: i64 in 1..64):
  alloc T: f32[n, 4] @shared
  alloc U: f32[n, 4] @shared
  for k in n:
    for i in 4:
      block U(vk: spatial[n] = k, vi: spatial[4] = i):
        reads A[vk, vi]
        writes U[vk, vi]
        U[vk, vi] = A[vk, vi]
    for i in 4 thread axis("threadIdx.x"):
      block T(vk: spatial[n] = k, vi: spatial[4] = i) {double_buffer = 0}:
        reads U[vk, vi]
        writes T[vk, vi]
        T[vk, vi] = U[vk, vi]
    for i in 4:
      block B(vk: reduce[n] = k, vi: spatial[4] = i):
        reads T[vk, vi]
        writes B[vi]
        init:
          B[vi] = 0.0
        B[vi] = B[vi] + T[vk, vi]
)"),
                                      opencl())),
            4);  // between the two copies of both of them; in the loop and after it
}

TEST(Device, ScopesFollowFromThePlace) {
  const Func func = flatten_blocks(parsed(R"(func f(A: f32[4, 8], B: f32[4, 8] output):
  alloc All: f32[4, 8]
  alloc Block: f32[4, 8]
  alloc Thread: f32[4, 8]
  alloc Together: f32[4, 8]
  for b in 4 thread axis("blockIdx.x"):
    for t in 8 thread axis("threadIdx.x"):
      block All(vb: spatial[4] = b, vt: spatial[8] = t):
        reads A[vb, vt]
        writes All[vb, vt]
        All[vb, vt] = A[vb, vt]
  for b in 4 thread axis("blockIdx.x"):
    for t in 8 thread axis("threadIdx.x"):
      block Block(vb: spatial[4] = b, vt: spatial[8] = t):
        reads All[vb, vt]
        writes Block[vb, vt]
        Block[vb, vt] = All[vb, vt]
    for t in 8 thread axis("threadIdx.x"):
      for u in 8 thread axis("threadIdx.x"):
        block Together(vb: spatial[4] = b, vu: spatial[8] = u):
          reads A[vb, vu]
          writes Together[vb, vu]
          Together[vb, vu] = A[vb, vu]
      block Thread(vb: spatial[4] = b, vt: spatial[8] = t):
        reads Block[vb, 7 - vt]
        writes Thread[vb, vt]
        Thread[vb, vt] = Block[vb, 7 - vt]
      block B(vb: spatial[4] = b, vt: spatial[8] = t):
        reads Thread[vb, vt], Together[vb, 7 - vt]
        writes B[vb, vt]
        B[vb, vt] = Thread[vb, vt] + Together[vb, 7 - vt]
)"));
  std::map<std::string, std::string> scopes;
  const Func inferred = infer_scopes(func, opencl());
  for (const Buffer& buffer : inferred.root().allocations) scopes[buffer->name] = buffer->scope;
  EXPECT_EQ(scopes["All"], "global");
  EXPECT_EQ(scopes["Block"], "shared");
  EXPECT_EQ(scopes["Thread"], "local");
  EXPECT_EQ(scopes["Together"], "shared");
}

TEST(Device, TellsOfEachPassInOrder) {
  std::vector<std::string> told;
  std::string last;
  const auto program =
      lower_for_device(parsed(two_nests("", "vt", "7 - wu")), opencl(), [&](std::string_view pass, const Func& func) {
        told.emplace_back(pass);
        last = to_text(func);
      });
  ASSERT_OK(program);
  const auto at = [&](const char* pass) { return std::ranges::find(told, pass) - told.begin(); };
  EXPECT_EQ(told.front(), "check_axes");
  EXPECT_LT(at("flatten_blocks"), at("infer_scopes"));
  EXPECT_LT(at("infer_scopes"), at("insert_barriers"));  // of the kernel
  EXPECT_LT(at("insert_barriers"), at("launch_kernels"));
  EXPECT_EQ(told.back(), "fold_control");
  EXPECT_EQ(last, to_text(program->host));
}

TEST(Device, ABufferOfAllLivesOnTheHost) {
  auto s = testing::schedule_from("for i in 8: B[i] = A[i] + 1.0");
  ASSERT_OK(cache_read(s, {s.block("B"), 0, "global", {}}));
  const auto program = lower_for_device(s.func(), opencl());
  ASSERT_OK(program);
  EXPECT_EQ(program->kernels.size(), 2u);
  EXPECT_NE(to_text(program->host).find("allocate A_global"), std::string::npos) << to_text(program->host);
}

TEST(Device, RefusesWhatHasNoKernel) {
  // A loop over blocks inside another nest's loop that is none.
  EXPECT_ERROR(lower_for_device(parsed(R"(func f(A: f32[4, 8], B: f32[4, 8] output):
  for t in 4 thread axis("threadIdx.x"):
    for b in 8 thread axis("blockIdx.x"):
      block B(vt: spatial[4] = t, vb: spatial[8] = b):
        reads A[vt, vb]
        writes B[vt, vb]
        B[vt, vb] = A[vt, vb]
)"),
                                opencl()),
               E301);
  // Threads whose number is known late.
  EXPECT_ERROR(lower_for_device(parsed(R"(func f(A: f32[n], B: f32[n] output, n: i64 in 1..64):
  for t in n thread axis("threadIdx.x"):
    block B(vt: spatial[n] = t):
      reads A[vt]
      writes B[vt]
      B[vt] = A[vt]
)"),
                                opencl()),
               E301);
  // Memory of a thread whose size is known late.
  EXPECT_ERROR(lower_for_device(parsed(R"(func f(A: f32[n], B: f32[n] output, n: i64 in 1..64):
  alloc T: f32[n] @local
  for i in n:
    block T(vi: spatial[n] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for i in n:
    block B(vi: spatial[n] = i):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi]
)"),
                                opencl()),
               E301);
  // A scope that nobody declares; one that is used by two kernels; threads that a CPU lacks.
  EXPECT_ERROR(lower_for_device(parsed(two_nests("texture", "vt", "wu")), opencl()), E219);
  EXPECT_ERROR(lower_for_device(parsed(R"(func f(A: f32[8], B: f32[8] output):
  alloc T: f32[8] @shared
  for i in 8:
    block T(vi: spatial[8] = i):
      reads A[vi]
      writes T[vi]
      T[vi] = A[vi]
  for i in 8:
    block B(vi: spatial[8] = i):
      reads T[vi]
      writes B[vi]
      B[vi] = T[vi]
)"),
                                opencl()),
               E301);
  EXPECT_ERROR(lower_for_device(parsed(two_nests("", "vt", "wu")), *parse_target("x86-64-avx2")), E301);
}

// Sums that launches go on with are memory of all.
TEST(Device, ALoopOfLaunchesKeepsItsSums) {
  const auto sums = [](const std::string& scope) {
    return parsed(R"(func f(A: f32[4, 8], B: f32[8] output):
  alloc T: f32[8])" +
                  scope + R"(
  for k in 4:
    for b in 8 thread axis("blockIdx.x"):
      block T(vb: spatial[8] = b, vk: reduce[4] = k):
        reads A[vk, vb]
        writes T[vb]
        init:
          T[vb] = 0.0
        T[vb] = T[vb] + A[vk, vb]
      block B(vb: spatial[8] = b):
        reads T[vb]
        writes B[vb]
        B[vb] = T[vb]
)");
  };
  const auto program = lower_for_device(sums(""), opencl());
  ASSERT_OK(program);
  EXPECT_NE(to_text(program->host).find("allocate T"), std::string::npos) << to_text(*program);
  EXPECT_ERROR(lower_for_device(sums(" @shared"), opencl()), E301);
}

// Threads must meet inside a loop that runs for some of them only.
TEST(Device, RefusesABarrierWhereThreadsPart) {
  const auto func = parsed(R"(func f(A: f32[8, 8], B: f32[8, 8] output):
  alloc T: f32[8, 8] @shared
  for y in 8 thread axis("threadIdx.y"):
    for k in y + 1:
      for t in 8 thread axis("threadIdx.x"):
        block T(vy: spatial[8] = y, vk: spatial[8] = k, vt: spatial[8] = t):
          reads A[vy, vt]
          writes T[vy, vt]
          T[vy, vt] = A[vy, vt]
      for t in 8 thread axis("threadIdx.x"):
        block B(vy: spatial[8] = y, vk: spatial[8] = k, vt: spatial[8] = t):
          reads T[vy, 7 - vt]
          writes B[vy, vt]
          B[vy, vt] = T[vy, 7 - vt]
)");
  const auto refused = lower_for_device(func, opencl());
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::E301);
  EXPECT_NE(refused.error().message.find("loop k"), std::string::npos) << refused.error().message;
}

TEST(Device, LimitsOfTheTarget) {
  auto wide = testing::schedule_from("for i in 4096: B[i] = A[i]");
  ASSERT_OK(bind(wide, {wide.loop("i"), "threadIdx.x"}));
  EXPECT_ERROR(lower_for_device(wide.func(), opencl()), E230);
  EXPECT_ERROR(verify(wide.func(), opencl()), E230);

  auto many = testing::schedule_from("for i in 64: for j in 64: B[i, j] = A[i, j]");
  const LoopRef i = many.loop("i"), j = many.loop("j");
  ASSERT_OK(bind(many, {i, "threadIdx.y"}));
  EXPECT_OK(verify(many.func(), opencl()));
  ASSERT_OK(bind(many, {j, "threadIdx.x"}));
  EXPECT_ERROR(lower_for_device(many.func(), opencl()), E230);
  EXPECT_ERROR(verify(many.func(), opencl()), E230);

  // A block has 32 KiB: a row of 8,000 floats fits, two do not.
  for (const int rows : {1, 2}) {
    auto s = testing::schedule_from("for i in 6: for j in 8000: B[i, j] = A[i, 7999 - j]");
    s.set_target(std::make_shared<Target>(opencl()));
    const auto parts = split(s, {s.loop("i"), {kInfer, rows}});
    ASSERT_OK(parts);
    const auto copy = cache_read(s, {s.block("B"), 0, "shared", {}});
    ASSERT_OK(copy);
    ASSERT_OK(compute_at(s, {*copy, (*parts)[0]}));
    ASSERT_OK(bind(s, {(*parts)[0], "blockIdx.x"}));
    EXPECT_EQ(verify(s.func(), opencl()).has_value(), rows == 1);
    EXPECT_EQ(lower_for_device(s.func(), opencl()).has_value(), rows == 1);
  }
}

TEST(Device, FlatMemoryHasOneIndex) {
  auto s = testing::schedule_from("for i in 6: for j in 8: B[i, j] = A[i, j]");
  const auto copy = cache_read(s, {s.block("B"), 0, "global", {}});
  ASSERT_OK(copy);
  const std::string before = to_text(*lower_for_device(s.func(), opencl()));
  ASSERT_OK(set_axis_separator(s, {*copy, 0, "write", {1}}));
  EXPECT_EQ(to_text(*lower_for_device(s.func(), opencl())), before);
}

}  // namespace
}  // namespace fettle
