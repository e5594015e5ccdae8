#include "tune/space/affine_orders.h"

#include <gtest/gtest.h>

#include "analysis/verify.h"
#include "ir/query.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/testing.h"
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

TEST(AffineOrders, LeaveProductsToRules) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const auto s = default_schedule(testing::matmul_workload(64, 64, 64, false, false, true, true), target, 1);
  ASSERT_OK(s);
  EXPECT_FALSE(has_step(*s, "reschedule("));
}

}  // namespace
}  // namespace fettle
