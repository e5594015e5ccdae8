#include "analysis/dependence.h"

#include <gtest/gtest.h>

#include "analysis/parallel_check.h"
#include "ir/text.h"

namespace fettle {
namespace {

Func parsed(std::string_view text) {
  Result<Func> func = parse_func(text);
  EXPECT_TRUE(func.has_value()) << (func ? "" : func.error().to_string());
  return func ? *func : Func();
}

constexpr const char* kChain = R"(func f(A: f32[64, 64], B: f32[64, 64], D: f32[64, 64] output):
  alloc T: f32[64, 64]
  alloc C: f32[64, 64]
  for i in 8:
    for ii in 8:
      for j in 64:
        block T(vi: spatial[64] = i * 8 + ii, vj: spatial[64] = j):
          reads A[vi, vj]
          writes T[vi, vj]
          T[vi, vj] = A[vi, vj] * 2.0
    for ii_1 in 8:
      for j_1 in 64:
        for k in 64:
          block C(vi_1: spatial[64] = i * 8 + ii_1, vj_1: spatial[64] = j_1, vk: reduce[64] = k):
            reads T[vi_1, vk], B[vk, vj_1]
            writes C[vi_1, vj_1]
            init:
              C[vi_1, vj_1] = 0.0
            C[vi_1, vj_1] = C[vi_1, vj_1] + T[vi_1, vk] * B[vk, vj_1]
  for x in 64:
    for y in 63:
      block D(vx: spatial[64] = x, vy: spatial[64] = y):
        reads C[vx, vy]
        writes D[vx, vy]
        D[vx, vy] = max(C[vx, vy], 0.0)
)";

const ForNode* loop_named(const std::vector<BlockSite>& sites, std::string_view name) {
  for (const BlockSite& site : sites)
    for (const ForNode* loop : site.loops)
      if (loop->var->name == name) return loop;
  return nullptr;
}

TEST(Sites, KnowTheirLoops) {
  const Func f = parsed(kChain);
  const auto sites = block_sites(f);
  ASSERT_EQ(sites.size(), 3u);
  EXPECT_EQ(sites[0].block->name, "T");
  EXPECT_EQ(sites[1].loops.size(), 4u);
  EXPECT_EQ(sites[0].loops[0], sites[1].loops[0]);
  EXPECT_EQ(find_site(sites, "D")->parent, -1);
  Analyzer a;
  bind_site(sites, sites[1], a);
  const auto region = region_at(sites[1], sites[1].block->reads[0], 1, a);
  ASSERT_TRUE(region);
  EXPECT_EQ(to_text((*region)[0].min), "i * 8");
  EXPECT_EQ(to_text((*region)[0].extent), "8");
  EXPECT_EQ(to_text((*region)[1].extent), "64");
}

TEST(Dependences, BetweenBlocks) {
  const Func f = parsed(kChain);
  const auto sites = block_sites(f);
  const auto deps = dependences_in(f, sites);
  ASSERT_EQ(deps.size(), 2u);
  EXPECT_EQ(deps[0].from, 0);
  EXPECT_EQ(deps[0].to, 1);
  EXPECT_EQ(deps[1].from, 1);
  EXPECT_EQ(deps[1].to, 2);
}

TEST(Dependences, DisjointPartsDoNotDepend) {
  const Func f = parsed(R"(func f(A: f32[64], T: f32[64] output):
  for i in 32:
    block low(v: spatial[32] = i):
      reads A[v]
      writes T[v]
      T[v] = A[v]
  for j in 32:
    block high(w: spatial[32] = j):
      reads A[w + 32]
      writes T[w + 32]
      T[w + 32] = A[w + 32]
)");
  EXPECT_TRUE(dependences_in(f, block_sites(f)).empty());
}

TEST(Dependences, BlocksThatReachAllOfTheirDomain) {
  const Func f = parsed(kChain);
  const auto sites = block_sites(f);
  EXPECT_TRUE(covers_domain(f, sites, sites[0]));
  EXPECT_TRUE(covers_domain(f, sites, sites[1]));
  EXPECT_FALSE(covers_domain(f, sites, sites[2]));  // the last column is left out
}

TEST(Parallel, SpatialLoopsMayReductionsMayNot) {
  const Func f = parsed(kChain);
  const auto sites = block_sites(f);
  for (const char* name : {"i", "ii", "j", "ii_1", "j_1", "x", "y"})
    EXPECT_TRUE(check_parallel(f, *loop_named(sites, name)).has_value())
        << name << check_parallel(f, *loop_named(sites, name)).error().to_string();
  const auto k = check_parallel(f, *loop_named(sites, "k"));
  ASSERT_FALSE(k.has_value());
  EXPECT_EQ(k.error().code, ErrorCode::E210);
}

TEST(Parallel, ReadingAnotherIterationIsARace) {
  const Func f = parsed(R"(func f(A: f32[64], D: f32[64] output):
  alloc T: f32[64]
  for i in 64:
    block T(v: spatial[64] = i):
      reads A[v]
      writes T[v]
      T[v] = A[v]
    block D(w: spatial[64] = i):
      reads T[max(w - 1, 0)]
      writes D[w]
      D[w] = T[max(w - 1, 0)]
)");
  const auto sites = block_sites(f);
  const auto result = check_parallel(f, *loop_named(sites, "i"));
  ASSERT_FALSE(result.has_value());
  EXPECT_NE(result.error().message.find("another iteration"), std::string::npos);
}

TEST(Parallel, OverlappingTilesMayWriteButNotUpdate) {
  constexpr const char* text = R"(func f(A: f32[100], D: f32[100] output):
  for i in 4:
    for j in 32:
      block D(v: spatial[100] = min(i * 32, 68) + j):
        reads A[v], D[v]
        writes D[v]
        D[v] = D[v] + A[v]
)";
  const Func updates = parsed(text);
  std::string plain_text = text;
  plain_text.replace(plain_text.find(", D[v]\n"), 7, "\n");
  plain_text.replace(plain_text.find("D[v] + "), 7, "");
  const Func plain = parsed(plain_text);
  ASSERT_TRUE(updates && plain);
  EXPECT_FALSE(check_parallel(updates, *block_sites(updates)[0].loops[0]).has_value());
  EXPECT_TRUE(check_parallel(plain, *block_sites(plain)[0].loops[0]).has_value());
}

// Two blocks under one loop; the text of their statements.
Func under_one_loop(const std::string& first, const std::string& second) {
  return parsed(
      "func f(A: f32[16], B: f32[16], X: f32[16] output, Y: f32[16] output):\n"
      "  alloc T: f32[16]\n"
      "  for i in 16:\n" +
      first + second);
}

std::string block_text(const std::string& name, const std::string& reads, const std::string& write,
                       const std::string& value) {
  return "    block " + name + "(v: spatial[16] = i):\n" + (reads.empty() ? "" : "      reads " + reads + "\n") +
         "      writes " + write + "\n      " + write + " = " + value + "\n";
}

bool may_run_at_once(const Func& func) {
  const auto sites = block_sites(func);
  return check_parallel(func, *sites.front().loops.front()).has_value();
}

TEST(CheckParallel, BlocksThatWriteOneBuffer) {
  const std::string clear = block_text("P", "", "X[v]", "0.0");
  EXPECT_TRUE(may_run_at_once(under_one_loop(clear, block_text("Q", "A[v]", "X[v]", "A[v]"))));
  EXPECT_FALSE(may_run_at_once(under_one_loop(clear, block_text("Q", "A[v]", "X[15 - v]", "A[v]"))));
}

TEST(CheckParallel, ABlockThatReadsBeforeAnotherOneWrites) {
  const std::string write = block_text("Q", "B[v]", "T[v]", "B[v]");
  EXPECT_TRUE(may_run_at_once(under_one_loop(block_text("P", "T[v]", "X[v]", "T[v]"), write)));
  EXPECT_FALSE(may_run_at_once(under_one_loop(block_text("P", "T[15 - v]", "X[v]", "T[15 - v]"), write)));
}

TEST(CheckParallel, ABlockThatReadsItsOwnNeighbours) {
  const std::string other = block_text("Q", "B[v]", "Y[v]", "B[v]");
  EXPECT_TRUE(may_run_at_once(under_one_loop(block_text("P", "X[v]", "X[v]", "X[v] + 1.0"), other)));
  EXPECT_FALSE(may_run_at_once(under_one_loop(block_text("P", "X[max(v - 1, 0)]", "X[v]", "X[max(v - 1, 0)]"), other)));
}

}  // namespace
}  // namespace fettle
