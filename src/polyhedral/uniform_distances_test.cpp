#include "polyhedral/uniform_distances.h"

#include <gtest/gtest.h>

#include "analysis/affine/nest.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

isl::union_map pairs(const char* text) { return isl::union_map(isl_context(), text); }

// A stencil's neighbours, of the step before.
TEST(UniformDistances, StandWithoutBounds) {
  const isl::union_set domain(isl_context(),
                              "{ S[t, i] : 0 <= t < 9 and 0 <= i < 20; T[t, i] : 0 <= t < 9 and 0 <= i < 20 }");
  const isl::union_map near = pairs("{ S[t, i] -> T[t + 1, j] : i - 1 <= j <= i + 1 }");
  const isl::union_map inside = near.intersect_domain(domain).intersect_range(domain);
  EXPECT_FALSE(inside.is_equal(near));
  const auto free = without_bounds(inside, domain);
  ASSERT_TRUE(free);
  EXPECT_TRUE(free->is_equal(near));
}

// Distances that grow, those of some instances alone, and pairs of instances of different loops.
TEST(UniformDistances, AreAllOrNone) {
  const isl::union_set domain(isl_context(), "{ S[t, i] : 0 <= t < 9 and 0 <= i < 20; U[t] : 0 <= t < 9 }");
  for (const char* text : {"{ S[t, i] -> S[t + 1, 19 - i] }", "{ S[t, 3] -> S[t + 1, 4] }", "{ U[t] -> S[t, i] }"}) {
    const isl::union_map some = pairs(text).intersect_domain(domain).intersect_range(domain);
    EXPECT_FALSE(without_bounds(some, domain)) << text;
    const isl::union_map near = pairs("{ S[t, i] -> S[t + 1, i] }").intersect_domain(domain).intersect_range(domain);
    EXPECT_FALSE(without_bounds(some.unite(near), domain)) << text;
  }
}

// Two arrays that are made of each other in each step; one element is added to again and again.
TEST(UniformDistances, AllDependencesFollowFromDirectOnes) {
  const auto s = testing::schedule_from(R"(func f(A: f32[8] output, B: f32[8] output, C: f32[1] output):
  for t in 4:
    for i in 6:
      block S0(vt: scan[4] = t, vi: spatial[6] = i):
        reads A[vi +: 3]
        writes B[vi + 1]
        B[vi + 1] = A[vi] + A[vi + 2]
    for j in 6:
      block S1(vt: scan[4] = t, vi: spatial[6] = j):
        reads B[vi + 1]
        writes A[vi + 1]
        A[vi + 1] = B[vi + 1]
    for k in 6:
      block S2(vt: scan[4] = t, vk: reduce[6] = k):
        reads C[0], A[vk + 1]
        writes C[0]
        C[0] = C[0] + A[vk + 1]
)");
  const auto nest = AffineNest::of(s.func(), s.func().root().body);
  ASSERT_OK(nest);
  const isl::union_map all = nest->dependences(Reassociation::kNone);
  const isl::union_map direct = nest->direct_dependences(Reassociation::kNone);
  EXPECT_TRUE(direct.is_subset(all));
  EXPECT_FALSE(all.is_subset(direct));
  isl::union_map following = direct;
  for (int steps = 1; steps < 16; steps *= 2) following = following.unite(following.apply_range(following)).coalesce();
  EXPECT_TRUE(all.is_subset(following));
}

}  // namespace
}  // namespace fettle
