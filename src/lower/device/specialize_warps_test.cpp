// What the copy engine and persistent blocks are refused; what becomes of them: benchmarks/cuda/schedules_test.cpp.
#include "lower/device/device.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

Func copied(const std::string& of_copy, const std::string& of_blocks = "") {
  const auto func = parse_func(R"(func f(A: f32[512, 32], B: f32[512, 32] output):
  alloc T: f32[512, 32] @shared
  for b in 8 thread axis("blockIdx.x"))" +
                               of_blocks + R"(:
    for i in 64)" + of_copy + R"(:
      for j in 32:
        block T(vi: spatial[512] = b * 64 + i, vj: spatial[32] = j):
          reads A[vi, vj]
          writes T[vi, vj]
          T[vi, vj] = A[vi, vj]
    for t in 32 thread axis("threadIdx.x"):
      for r in 64:
        block B(vi: spatial[512] = b * 64 + r, vj: spatial[32] = t):
          reads T[vi, vj]
          writes B[vi, vj]
          B[vi, vj] = T[vi, vj] * 2.0
)");
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

TEST(SpecializeWarps, ABulkCopyNeedsARing) {
  const Func func = copied(" {bulk_copy = 1}");
  EXPECT_ERROR(lower_for_device(func, *parse_target("cuda -arch sm_90a")), E301);
  // Elsewhere it is a copy as any other.
  EXPECT_OK(lower_for_device(func, *parse_target("cuda -arch sm_90")));
  EXPECT_OK(lower_for_device(func, *parse_target("opencl")));
}

TEST(SpecializeWarps, PersistentBlocks) {
  const auto grid = [](const char* notes, const char* target = "opencl") -> Result<Expr> {
    FETTLE_TRY(const DeviceProgram program, lower_for_device(copied("", notes), *parse_target(target)));
    return program.kernels.begin()->second.grid[0];
  };
  EXPECT_TRUE(is_int(*grid(" {persistent = 3}"), 3));
  EXPECT_TRUE(is_int(*grid(" {persistent = 100}"), 8));
  EXPECT_TRUE(is_int(*grid(""), 8));
  EXPECT_ERROR(grid(" {persistent = -1}"), E301);
  // Clusters are whole, and of sm_90a.
  EXPECT_OK(grid(" {cluster = 2, persistent = 4}", "cuda -arch sm_90a"));
  EXPECT_ERROR(grid(" {cluster = 2, persistent = 3}", "cuda -arch sm_90a"), E301);
  EXPECT_ERROR(grid(" {cluster = 3}", "cuda -arch sm_90a"), E301);
  EXPECT_OK(grid(" {cluster = 3}"));
}

}  // namespace
}  // namespace fettle
