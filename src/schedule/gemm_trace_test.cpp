// Whole traces by hand: GEMM and convolution, with odd extents, checked by the interpreter after every step.

#include "schedule/primitives/cache_inplace.h"
#include "schedule/primitives/cache_read.h"
#include "schedule/primitives/cache_write.h"
#include "schedule/primitives/compute_at.h"
#include "schedule/primitives/compute_inline.h"
#include "schedule/primitives/decompose_reduction.h"
#include "schedule/primitives/reorder.h"
#include "schedule/primitives/reverse_compute_at.h"
#include "schedule/primitives/reverse_compute_inline.h"
#include "schedule/primitives/split.h"
#include "schedule/primitives/transform_layout.h"
#include "schedule/primitives/unroll.h"
#include "schedule/primitives/vectorize.h"
#include "schedule/test_programs.h"
#include "schedule/testing.h"

#include <ostream>

namespace fettle {
namespace {

using testing::map_of;
using testing::schedule_from;
using testing::TestSchedule;

// D = relu(A @ B + bias + R), with odd extents.
constexpr const char* kGemm = R"(
func gemm(A: f32[53, 23], B: f32[23, 77] constant, bias: f32[77] constant, R: f32[53, 77], D: f32[53, 77] output):
  alloc C: f32[53, 77]
  for i in 53:
    for j in 77:
      for k in 23:
        block C(vi: spatial[53] = i, vj: spatial[77] = j, vk: reduce[23] = k):
          reads A[vi, vk], B[vk, vj]
          writes C[vi, vj]
          init:
            C[vi, vj] = 0.0
          C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
  for i in 53:
    for j in 77:
      block D(vi: spatial[53] = i, vj: spatial[77] = j):
        reads C[vi, vj], bias[vj], R[vi, vj]
        writes D[vi, vj]
        D[vi, vj] = max(C[vi, vj] + bias[vj] + R[vi, vj], 0.0)
)";

// Packs B into panels of 32 columns.
void pack_b(TestSchedule& s, BlockRef c) {
  auto bp = cache_read(s, {c, 1, "global"});
  ASSERT_OK(bp);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(transform_layout(s, {*bp, 0, "write", map_of("(k, n) -> (n // 32, k, n % 32)")}));
  EXPECT_SAME_RESULT(s);
}

struct GemmTails {
  Tail rows, columns;
};
void PrintTo(const GemmTails& tails, std::ostream* out) {
  *out << tail_name(tails.rows) << ", " << tail_name(tails.columns);
}

class GemmTrace : public ::testing::TestWithParam<GemmTails> {};

TEST_P(GemmTrace, OneBlockOfK) {
  auto s = schedule_from(kGemm);
  BlockRef c = s.block("C"), d = s.block("D");
  pack_b(s, c);
  auto cr = cache_write(s, {c, 0, "register"});
  ASSERT_OK(cr);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_inline(s, {d}));
  EXPECT_SAME_RESULT(s);

  auto loops = s.loops(c);
  auto i = split(s, {loops[0], {kInfer, 14}, GetParam().rows});
  auto j = split(s, {loops[1], {kInfer, 2, 16}, GetParam().columns});
  ASSERT_OK(i);
  ASSERT_OK(j);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reorder(s, {{(*j)[0], (*i)[0], loops[2], (*i)[1], (*j)[1], (*j)[2]}}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_at(s, {*cr, (*i)[0]}));
  EXPECT_SAME_RESULT(s);
  auto init = decompose_reduction(s, {c, loops[2]});
  ASSERT_OK(init);
  EXPECT_SAME_RESULT(s);
  for (LoopRef loop : {(*i)[1], (*j)[1]}) ASSERT_OK(unroll(s, {loop}));
  ASSERT_OK(vectorize(s, {(*j)[2]}));
  auto back = s.loops(*cr);
  ASSERT_EQ(back.size(), 4u);
  const auto* rows = s.loop(back[2])->as<ForNode>();
  const auto* columns = s.loop(back[3])->as<ForNode>();
  EXPECT_TRUE(is_int(rows->extent, 14) || (GetParam().rows == Tail::kBalance && is_int(rows->extent, 14)));
  EXPECT_TRUE(is_int(columns->extent, 32));
  auto lanes = split(s, {back[3], {kInfer, 16}});
  ASSERT_OK(lanes);
  ASSERT_OK(unroll(s, {back[2]}));
  ASSERT_OK(vectorize(s, {(*lanes)[1]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

TEST_P(GemmTrace, BlockedK) {
  auto s = schedule_from(kGemm);
  BlockRef c = s.block("C"), d = s.block("D");
  pack_b(s, c);
  auto loops = s.loops(c);
  auto i = split(s, {loops[0], {kInfer, 14}, GetParam().rows});
  auto j = split(s, {loops[1], {kInfer, 2, 16}, GetParam().columns});
  auto k = split(s, {loops[2], {kInfer, 8}, Tail::kPartition});
  ASSERT_OK(i);
  ASSERT_OK(j);
  ASSERT_OK(k);
  ASSERT_OK(reorder(s, {{(*k)[0], (*j)[0], (*i)[0], (*k)[1], (*i)[1], (*j)[1], (*j)[2]}}));
  EXPECT_SAME_RESULT(s);
  auto tile = cache_inplace(s, {c, 0, (*i)[0], "register"});
  ASSERT_OK(tile);
  ASSERT_EQ(tile->size(), 2u);
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(reverse_compute_inline(s, {d}));
  EXPECT_SAME_RESULT(s);
  for (LoopRef loop : {(*i)[1], (*j)[1]}) ASSERT_OK(unroll(s, {loop}));
  ASSERT_OK(vectorize(s, {(*j)[2]}));
  for (BlockRef block : *tile) {
    auto around = s.loops(block);
    ASSERT_EQ(around.size(), 5u);
    auto lanes = split(s, {around[4], {kInfer, 16}});
    ASSERT_OK(lanes);
    ASSERT_OK(unroll(s, {around[3]}));
    ASSERT_OK(vectorize(s, {(*lanes)[1]}));
  }
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

TEST_P(GemmTrace, EpilogueInTheLastStep) {
  auto s = schedule_from(kGemm);
  BlockRef c = s.block("C"), d = s.block("D");
  auto loops = s.loops(c);
  auto i = split(s, {loops[0], {kInfer, 14}, GetParam().rows});
  auto j = split(s, {loops[1], {kInfer, 2, 16}, GetParam().columns});
  auto k = split(s, {loops[2], {kInfer, 8}, Tail::kPartition});
  ASSERT_OK(i);
  ASSERT_OK(j);
  ASSERT_OK(k);
  ASSERT_OK(reorder(s, {{(*k)[0], (*j)[0], (*i)[0], (*k)[1], (*i)[1], (*j)[1], (*j)[2]}}));
  ASSERT_OK(cache_inplace(s, {c, 0, (*i)[0], "register"}));
  ASSERT_OK(reverse_compute_at(s, {d, (*i)[0]}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

INSTANTIATE_TEST_SUITE_P(Tails, GemmTrace,
                         ::testing::Values(GemmTails{Tail::kBalance, Tail::kPad},
                                           GemmTails{Tail::kPartition, Tail::kMask},
                                           GemmTails{Tail::kGuard, Tail::kGuard}),
                         [](const auto& info) {
                           return std::string(tail_name(info.param.rows)) + "_" +
                                  std::string(tail_name(info.param.columns));
                         });

TEST(GemmTrace, PacksAPanelByPanel) {
  auto s = schedule_from(kGemm);
  BlockRef c = s.block("C");
  pack_b(s, c);
  auto ap = cache_read(s, {c, 0, "global"});
  ASSERT_OK(ap);
  ASSERT_OK(transform_layout(s, {*ap, 0, "write", map_of("(m, k) -> (m // 14, k, m % 14)")}));
  EXPECT_SAME_RESULT(s);
  auto loops = s.loops(c);
  auto i = split(s, {loops[0], {kInfer, 2, 14}, Tail::kPartition});
  auto j = split(s, {loops[1], {kInfer, 32}, Tail::kPad});
  auto k = split(s, {loops[2], {kInfer, 8}, Tail::kPartition});
  ASSERT_OK(i);
  ASSERT_OK(j);
  ASSERT_OK(k);
  ASSERT_OK(reorder(s, {{(*k)[0], (*i)[0], (*j)[0], (*i)[1], (*k)[1], (*i)[2], (*j)[1]}}));
  ASSERT_OK(compute_at(s, {*ap, (*i)[0]}));
  EXPECT_SAME_RESULT(s);
  ASSERT_OK(cache_inplace(s, {c, 0, (*i)[1], "register"}));
  EXPECT_SAME_RESULT(s);
  EXPECT_REPLAYS(s);
  EXPECT_GOLDEN(s.func());
}

}  // namespace
}  // namespace fettle
