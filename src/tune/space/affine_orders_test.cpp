#include "tune/space/affine_orders.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "lower/lower.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
#include "target/tensor_intrinsic.h"
#include "tune/space/test_workloads.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// A triangular matrix times another, in place.
const char* const kTriangular = R"(func trmm(X: f64[24, 40], A: f64[24, 24], B: f64[24, 40] output):
  for a in 24:
    for b in 40:
      block copy(va: spatial[24] = a, vb: spatial[40] = b):
        reads X[va, vb]
        writes B[va, vb]
        B[va, vb] = X[va, vb]
  for i in 24:
    for j in 40:
      for k in i +: 23 - i:
        block S(vi: scan[24] = i, vj: scan[40] = j, vk: scan[23] = k):
          reads B[vi, vj], A[vk + 1, vi], B[vk + 1, vj]
          writes B[vi, vj]
          B[vi, vj] = B[vi, vj] + A[vk + 1, vi] * B[vk + 1, vj]
    for j in 40:
      block T(vi: spatial[24] = i, vj: spatial[40] = j):
        reads B[vi, vj]
        writes B[vi, vj]
        B[vi, vj] = 2.0f64 * B[vi, vj]
)";

bool has_step(const Schedule& s, std::string_view name) { return to_text(s.trace()).find(name) != std::string::npos; }

TEST(AffineOrders, AreTheDefaultOfTriangularNests) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const Func workload = schedule_from(kTriangular).original;
  const auto s = default_schedule(workload, target, 1);
  ASSERT_OK(s);
  EXPECT_TRUE(has_step(*s, "reschedule("));
  EXPECT_OK(verify(s->func(), *target));
  EXPECT_TRUE(same_result(workload, s->func()));
  // Elements of a row are neighbours: they go into lanes.
  bool in_lanes = false;
  each_node<ForNode>(s->func()->body, [&](const ForNode& loop) {
    const auto blocks = blocks_under(Stmt(Ref<const ForNode>(&loop)));
    in_lanes = in_lanes || (loop.loop_kind == ForKind::kVectorized && blocks.front()->name.starts_with("S"));
  });
  EXPECT_TRUE(in_lanes) << to_text(s->func());
}

// Sums over a triangle, along memory and across: tiles of registers are predicted to be faster than plain loops.
TEST(AffineOrders, TileSumsOverTriangles) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx2"));
  const std::string before = R"(    for j in i + 1:
      block T(vi: spatial[216] = i, vj: spatial[216] = j):
        reads C[vi, vj]
        writes C[vi, vj]
        C[vi, vj] = 2.0f64 * C[vi, vj]
)";
  const std::pair<const char*, std::string> kCases[] = {
      {"A[vj, vk]", before}, {"B[vk, vj]", before}, {"A[vj, vk]", ""}};
  for (const auto& [factor, others] : kCases) {
    const Func workload =
        schedule_from(
            fmt::format(R"(func syrk(X: f64[{0}, {0}], A: f64[{0}, 300], B: f64[300, {0}], C: f64[{0}, {0}] output):
  for a in {0}:
    for b in {0}:
      block copy(va: spatial[{0}] = a, vb: spatial[{0}] = b):
        reads X[va, vb]
        writes C[va, vb]
        C[va, vb] = X[va, vb]
  for i in {0}:
{2}    for j in i + 1:
      for k in 300:
        block S(vi: spatial[{0}] = i, vj: spatial[{0}] = j, vk: reduce[300] = k):
          reads C[vi, vj], A[vi, vk], {1}
          writes C[vi, vj]
          C[vi, vj] = C[vi, vj] + A[vi, vk] * {1}
)",
                        216, factor, others))
            .original;
    const auto s = default_schedule(workload, target, 1);
    ASSERT_OK(s);
    EXPECT_OK(verify(s->func(), *target));
    EXPECT_TRUE(same_result(workload, s->func()));
    // Steps go over rows and columns that stay in registers.
    const auto lowered = lower(s->func(), *target, {});
    ASSERT_OK(lowered);
    int64_t kept = 0;
    for (const auto& [name, func] : lowered->kernel.funcs)
      each_node<AllocateNode>(func->body, [&](const AllocateNode& made) {
        int64_t elements = 1;
        for (const Expr& extent : made.buffer->shape) elements *= as_int(extent) ? *as_int(extent) : 1;
        if (is_in_registers(*made.buffer)) kept = std::max(kept, elements);
      });
    EXPECT_GE(kept, 24) << to_text(s->func());
  }
}

// Of a loop around more blocks than isl is given, the nests in it are ordered: rows, not columns, go into lanes.
TEST(AffineOrders, OfNestsInALoop) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const Func workload =
      schedule_from(R"(func mgs(X: f64[40, 48], Q: f64[40, 48], A: f64[40, 48] output, R: f64[48, 48] output):
  alloc n: f64[1]
  for a in 40:
    for b in 48:
      block copy(va: spatial[40] = a, vb: spatial[48] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for a in 48:
    for b in 48:
      block clear(va: spatial[48] = a, vb: spatial[48] = b):
        writes R[va, vb]
        R[va, vb] = 0.0f64
  for k in 47:
    block begin(vk: scan[47] = k):
      writes n[0]
      n[0] = 1.0f64
    for i in 40:
      block norm(vk: scan[47] = k, vi: reduce[40] = i):
        reads n[0], A[vi, vk]
        writes n[0]
        n[0] = n[0] + A[vi, vk] * A[vi, vk]
    block length(vk: scan[47] = k):
      reads n[0]
      writes R[vk, vk]
      R[vk, vk] = sqrt(n[0])
    for j in k +: 47 - k:
      for i in 40:
        block S(vk: scan[47] = k, vj: scan[47] = j, vi: reduce[40] = i):
          reads R[vk, vj + 1], Q[vi, vk], A[vi, vj + 1]
          writes R[vk, vj + 1]
          R[vk, vj + 1] = R[vk, vj + 1] + Q[vi, vk] * A[vi, vj + 1]
      for i in 40:
        block T(vk: scan[47] = k, vj: scan[47] = j, vi: scan[40] = i):
          reads A[vi, vj + 1], Q[vi, vk], R[vk, vj + 1]
          writes A[vi, vj + 1]
          A[vi, vj + 1] = A[vi, vj + 1] - Q[vi, vk] * R[vk, vj + 1] * 0.01f64
)")
          .original;
  const auto s = default_schedule(workload, target, 1);
  ASSERT_OK(s);
  EXPECT_TRUE(has_step(*s, "reschedule("));
  EXPECT_OK(verify(s->func(), *target));
  EXPECT_TRUE(same_result(workload, s->func()));
}

// An iteration reads a row and a column that it writes: the loops are split there.
TEST(AffineOrders, SplitLoopsAtThePivot) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-v3"));
  const Func workload = schedule_from(R"(func paths(X: i32[90, 90], P: i32[90, 90] output):
  for a in 90:
    for b in 90:
      block copy(va: spatial[90] = a, vb: spatial[90] = b):
        reads X[va, vb]
        writes P[va, vb]
        P[va, vb] = X[va, vb]
  for k in 90:
    for i in 90:
      for j in 90:
        block S(vk: scan[90] = k, vi: scan[90] = i, vj: scan[90] = j):
          reads P[vi, vj], P[vi, vk], P[vk, vj]
          writes P[vi, vj]
          P[vi, vj] = min(P[vi, vj], P[vi, vk] + P[vk, vj])
)")
                            .original;
  const auto s = default_schedule(workload, target, 1);
  ASSERT_OK(s);
  EXPECT_TRUE(same_result(workload, s->func()));
  int lanes = 0;
  each_node<ForNode>(s->func()->body, [&](const ForNode& loop) {
    lanes += loop.loop_kind == ForKind::kVectorized &&
             blocks_under(Stmt(Ref<const ForNode>(&loop))).front()->name.starts_with("S");
  });
  EXPECT_EQ(lanes, 6) << to_text(s->func());
}

// Tridiagonal systems, row by row: divisions wait for each other along a row, and rows are lanes.
TEST(AffineOrders, MakeRowsOfRecurrencesLanes) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-v3"));
  const Func workload = schedule_from(R"(func solve(A: f64[90, 80], B: f64[90, 80], X: f64[90, 80], Y: f64[90, 80],
                                                 C: f64[90, 80] output, D: f64[90, 80] output):
  for a in 90:
    for b in 80:
      block copy_C(va: spatial[90] = a, vb: spatial[80] = b):
        reads X[va, vb]
        writes C[va, vb]
        C[va, vb] = X[va, vb]
  for a in 90:
    for b in 80:
      block copy_D(va: spatial[90] = a, vb: spatial[80] = b):
        reads Y[va, vb]
        writes D[va, vb]
        D[va, vb] = Y[va, vb]
  for i in 90:
    for j in 79:
      block c(vi: scan[90] = i, vj: scan[79] = j):
        reads C[vi, vj +: 2], A[vi, vj], B[vi, vj]
        writes C[vi, vj + 1]
        C[vi, vj + 1] = C[vi, vj + 1] / (B[vi, vj] + A[vi, vj] * C[vi, vj])
      block d(vi: scan[90] = i, vj: scan[79] = j):
        reads D[vi, vj +: 2], C[vi, vj], A[vi, vj], B[vi, vj]
        writes D[vi, vj + 1]
        D[vi, vj + 1] = (D[vi, vj + 1] - A[vi, vj] * D[vi, vj]) / (B[vi, vj] + A[vi, vj] * C[vi, vj])
)")
                            .original;
  const auto s = default_schedule(workload, target, 1);
  ASSERT_OK(s);
  EXPECT_TRUE(same_result(workload, s->func()));
  bool in_lanes = false;
  each_node<ForNode>(s->func()->body, [&](const ForNode& loop) {
    in_lanes = in_lanes || (loop.loop_kind == ForKind::kVectorized &&
                            blocks_under(Stmt(Ref<const ForNode>(&loop))).front()->name == "c");
  });
  EXPECT_TRUE(in_lanes) << to_text(s->func());
}

TEST(AffineOrders, LeaveProductsToRules) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto s = default_schedule(testing::matmul_workload(64, 64, 64, false, false, true, true), target, 1);
  ASSERT_OK(s);
  EXPECT_FALSE(has_step(*s, "reschedule("));
}

}  // namespace
}  // namespace fettle
