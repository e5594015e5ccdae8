#include "schedule/primitives/fuse_reduction_epilogue.h"

#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

// A matmul and, at `combine`, what follows it.
std::string with_epilogue(const std::string& combine) {
  std::string reads;
  if (combine.find("T[") != std::string::npos) reads = "T[0 +: 4, 0 +: 5]";
  if (combine.find("b[") != std::string::npos) reads += std::string(reads.empty() ? "" : ", ") + "b[vn]";
  return R"(
func dense(A: f32[4, 6], W: f32[6, 5], b: f32[5], D: f32[4, 5] output, E: f32[4, 5] output):
  alloc T: f32[4, 5]

  for i in 4:
    for j in 5:
      for k in 6:
        block T(vi: spatial[4] = i, vj: spatial[5] = j, vk: reduce[6] = k):
          reads A[vi, vk], W[vk, vj]
          writes T[vi, vj]
          init:
            T[vi, vj] = 0.0
          T[vi, vj] = T[vi, vj] + A[vi, vk] * W[vk, vj]
  for m in 4:
    for n in 5:
      block D(vm: spatial[4] = m, vn: spatial[5] = n):
        reads )" +
         reads + R"(
        writes D[vm, vn]
        D[vm, vn] = )" +
         combine + R"(
  for x in 4:
    for y in 5:
      block E(vx: spatial[4] = x, vy: spatial[5] = y):
        reads A[vx, vy]
        writes E[vx, vy]
        E[vx, vy] = A[vx, vy]
)";
}

TEST(FuseReductionEpilogue, TheBiasComesFirst) {
  auto s = schedule_from(with_epilogue("b[vn] + T[vm, vn]"));
  const BlockRef t = s.block("T"), d = s.block("D");
  ASSERT_OK(fuse_reduction_epilogue(s, {t, d}));
  EXPECT_TRUE(s.func().root().allocations.empty());
  EXPECT_EQ(find_block(s.func()->body, "D"), nullptr);
  ASSERT_OK(check_well_formed(s.func()));
  EXPECT_GOLDEN(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(FuseReductionEpilogue, MaximumWithABound) {
  auto s = schedule_from(R"(
func pool(A: f32[4, 6], D: f32[4] output):
  alloc T: f32[4]
  for i in 4:
    for k in 6:
      block T(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes T[vi]
        init:
          T[vi] = -inf
        T[vi] = max(T[vi], A[vi, vk])
  for m in 4:
    block D(vm: spatial[4] = m):
      reads T[vm]
      writes D[vm]
      D[vm] = max(T[vm], 0.0)
)");
  ASSERT_OK(fuse_reduction_epilogue(s, {s.block("T"), s.block("D")}));
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(FuseReductionEpilogue, Errors) {
  for (const char* other :
       {"T[vm, vn] * b[vn]", "T[vm, vn] + T[vm, vn]", "max(T[vm, vn], 0.0) + b[vn]", "T[3 - vm, 0] + b[vn]", "b[vn]"}) {
    auto s = schedule_from(with_epilogue(other));
    EXPECT_ERROR(fuse_reduction_epilogue(s, {s.block("T"), s.block("D")}), E214);
  }
  auto s = schedule_from(with_epilogue("T[vm, vn] + b[vn]"));
  const BlockRef t = s.block("T"), d = s.block("D");
  EXPECT_ERROR(fuse_reduction_epilogue(s, {d, t}), E212);
  ASSERT_OK(fuse_reduction_epilogue(s, {t, d}));
  EXPECT_ERROR(fuse_reduction_epilogue(s, {t, d}), E206);

  auto output = schedule_from("for i in 4: for k in 6: T[i] += A[i, k]\nfor j in 4: B[j] = T[j] + A[j, 0]");
  EXPECT_ERROR(fuse_reduction_epilogue(output, {output.block("T"), output.block("B")}), E213);

  auto late = schedule_from(R"(
func late(A: f32[4, 6], D: f32[4] output):
  alloc T: f32[4]
  alloc U: f32[4]
  for i in 4:
    for k in 6:
      block T(vi: spatial[4] = i, vk: reduce[6] = k):
        reads A[vi, vk]
        writes T[vi]
        init:
          T[vi] = 0.0
        T[vi] = T[vi] + A[vi, vk]
  for u in 4:
    block U(vu: spatial[4] = u):
      reads A[vu, 0]
      writes U[vu]
      U[vu] = A[vu, 0]
  for m in 4:
    block D(vm: spatial[4] = m):
      reads T[vm], U[vm]
      writes D[vm]
      D[vm] = T[vm] + U[vm]
)");
  EXPECT_ERROR(fuse_reduction_epilogue(late, {late.block("T"), late.block("D")}), E227);
}

}  // namespace
}  // namespace fettle
