#include "schedule/primitives/relabel.h"

#include "ir/text.h"
#include "schedule/testing.h"

namespace fettle {
namespace {

using testing::schedule_from;

TEST(Relabel, ALoopAndItsUses) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  ASSERT_OK(relabel(s, {s.loop("i"), "row"}));
  EXPECT_NE(to_text(s.func()).find("for row in 8"), std::string::npos) << to_text(s.func());
  EXPECT_REPLAYS(s);
  EXPECT_SAME_RESULT(s);
}

TEST(Relabel, E206NoName) {
  auto s = schedule_from("for i in 8: B[i] = A[i]");
  EXPECT_ERROR(relabel(s, {s.loop("i"), ""}), E206);
}

}  // namespace
}  // namespace fettle
