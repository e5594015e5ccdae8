#include "generations/tensor_comprehensions/polyhedral_space.h"

#include <set>

#include "analysis/verify.h"
#include "schedule/testing.h"
#include "target/target.h"

namespace fettle {
namespace {

using namespace fettle::testing;

// Each element from those around it, some of this step and some of the last one.
const char* const kSeidel = R"(func seidel(X: f32[40, 40], A: f32[40, 40] output):
  for a in 40:
    for b in 40:
      block copy(va: spatial[40] = a, vb: spatial[40] = b):
        reads X[va, vb]
        writes A[va, vb]
        A[va, vb] = X[va, vb]
  for t in 9:
    for i in 38:
      for j in 38:
        block S(vt: scan[9] = t, vi: scan[38] = i, vj: scan[38] = j):
          reads A[vi +: 3, vj +: 3]
          writes A[vi + 1, vj + 1]
          A[vi + 1, vj + 1] = max(A[vi, vj + 2], A[vi + 1, vj]) + max(A[vi + 2, vj], A[vi + 1, vj + 2]) - A[vi + 1, vj + 1]
)";

TEST(PolyhedralSpace, HasProgramsOfWhatEarlierIterationsWrote) {
  const auto target = std::make_shared<const Target>(*parse_target("x86-64-avx512"));
  const Func seidel = schedule_from(kSeidel).original;
  const auto space = make_polyhedral_space();
  std::set<std::string> programs;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const auto made = space->generate(seidel, target, 2, seed, nullptr);
    ASSERT_OK(made);
    EXPECT_OK(verify(made->func(), *target));
    EXPECT_TRUE(same_result(seidel, made->func()));
    programs.insert(to_text(made->func()));
    const auto again =
        space->generate(seidel, target, 2, seed + 1, std::make_shared<const DecisionMap>(made->decisions()));
    ASSERT_OK(again);
    EXPECT_EQ(to_text(again->func()), to_text(made->func()));
  }
  EXPECT_GT(programs.size(), 2u);
}

}  // namespace
}  // namespace fettle
