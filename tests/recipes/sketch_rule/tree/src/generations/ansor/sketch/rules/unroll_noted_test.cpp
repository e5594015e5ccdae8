#include "generations/ansor/sketch/sketch.h"
#include "schedule/primitives/annotate.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

TEST(UnrollNoted, IsPartOfADerivation) {
  auto s = testing::schedule_from("for i in 8: B[i] = A[i]");
  ASSERT_OK(annotate(s, {s.block("B"), "small", int64_t{1}}));
  const auto derived = derive_sketches(s.func());
  ASSERT_OK(derived);
  size_t found = 0;
  for (const Sketch& sketch : derived->sketches) found += std::ranges::count(sketch.derivation, "unroll_noted");
  EXPECT_EQ(found, 1u);
}

}  // namespace
}  // namespace fettle
