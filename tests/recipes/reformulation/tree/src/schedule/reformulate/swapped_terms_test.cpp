#include "ir/text.h"
#include "schedule/primitives/reformulate.h"
#include "schedule/reformulation.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

TEST(SwappedTerms, IsAppliedByName) {
  auto s = testing::schedule_from("for i in 8: B[i] = A[i] + C[i]");
  ASSERT_OK(reformulate(s, {s.block("B"), "swapped_terms", {}}));
  EXPECT_NE(to_text(s.func()).find("C[vi] + A[vi]"), std::string::npos) << to_text(s.func());
  EXPECT_EQ(numerics_of(s.func()), Numerics::kExact);
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

}  // namespace
}  // namespace fettle
