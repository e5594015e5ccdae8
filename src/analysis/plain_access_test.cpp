#include "analysis/plain_access.h"

#include <gtest/gtest.h>

#include "analysis/footprint.h"
#include "ir/text.h"

namespace fettle {
namespace {

// PlainAccess says of every access what access_footprints_of says; `plain` of them are plain.
void expect_as_footprints(std::string_view text, size_t plain) {
  const auto func = parse_func(text);
  ASSERT_TRUE(func.has_value()) << func.error().to_string();
  const std::vector<BlockSite> sites = block_sites(*func);
  std::vector<Buffer> buffers;
  for (const Param& param : (*func)->params) buffers.push_back(param.buffer);
  size_t found = 0;
  for (const AccessFootprint& f : access_footprints_of(*func, sites, buffers)) {
    const BlockNode& block = *sites[static_cast<size_t>(f.site)].block;
    for (const Region& region : f.is_write ? block.writes : block.reads) {
      if (!(region.buffer == f.buffer)) continue;
      const auto access = PlainAccess::of(sites[static_cast<size_t>(f.site)], region);
      if (!access) continue;
      ++found;
      for (size_t i = 0; i < f.loops.size(); ++i) {
        EXPECT_EQ(access->moves(i), f.stride_elems[i] != 0) << f.buffer->name << " " << i;
        EXPECT_EQ(access->extent(i), f.extents[i]);
      }
      for (size_t level = 0; level <= f.loops.size(); ++level)
        EXPECT_EQ(access->elems(level), f.elems[level]) << f.buffer->name << " " << level;
    }
  }
  EXPECT_EQ(found, plain);
}

TEST(PlainAccess, BalancedTiles) {
  expect_as_footprints(R"(func matmul(A: f32[197, 128], B: f32[128, 96], C: f32[197, 96] output):
  for i in 15:
    for j in 3:
      for u in 1:
        for k in 128:
          for ii in 14:
            for jj in 32:
              block C(vi: spatial[197] = i * 13 + min(i, 2) + ii + u, vj: spatial[96] = j * 32 + jj, vk: reduce[128] = k) where ii < 13 + select(i < 2, 1, 0):
                reads A[vi, vk], B[vk, vj]
                writes C[vi, vj]
                init:
                  C[vi, vj] = 0.0
                C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
)",
                       3);
}

TEST(PlainAccess, Windows) {
  expect_as_footprints(R"(func pool(A: f32[20, 20], B: f32[9, 9] output):
  for i in 9:
    for j in 9:
      for r in 3:
        block B(vi: spatial[9] = i, vj: spatial[9] = j, vr: reduce[3] = r):
          reads A[vi * 2 + vr, vj * 2 + 0 +: 3]
          writes B[vi, vj]
          init:
            B[vi, vj] = 0.0
          B[vi, vj] = B[vi, vj] + (A[vi * 2 + vr, vj * 2] + A[vi * 2 + vr, vj * 2 + 2])
)",
                       2);
}

TEST(PlainAccess, NothingForDivisions) {
  expect_as_footprints(R"(func f(A: f32[4, 8], B: f32[32] output):
  for i in 32:
    block B(v: spatial[32] = i):
      reads A[v // 8, v % 8]
      writes B[v]
      B[v] = A[v // 8, v % 8]
)",
                       1);
}

}  // namespace
}  // namespace fettle
