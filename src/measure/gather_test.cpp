#include "measure/gather.h"

#include <gtest/gtest.h>

#include "rt/context.h"

namespace fettle {
namespace {

TEST(Gather, EndsWhetherOrNotAllCome) {
  EXPECT_GT(gather_team(nullptr), 0);  // one thread
  rt::OwnedContext one(1), two(2), many(64);
  EXPECT_GT(gather_team(one.get()->team), 0);
  EXPECT_GE(gather_team(two.get()->team), 0);
  EXPECT_GE(gather_team(many.get()->team), 0);  // more than there are CPUs
}

// A team whose other threads never come: what is theirs runs after the caller has given up waiting.
TEST(Gather, GivesUpOnATeamThatIsAlone) {
  const FettleHostTeam host{.user = nullptr,
                            .size = [](void*) -> int32_t { return 2; },
                            .parallel_for =
                                [](void*, int64_t n, void (*body)(void*, int64_t), void* closure) {
                                  for (int64_t i = 0; i < n; ++i) body(closure, i);
                                }};
  FettleTeam* team = fettle_team_wrap(&host);
  ASSERT_NE(team, nullptr);
  EXPECT_EQ(gather_team(team), 0);
  fettle_team_destroy(team);
}

}  // namespace
}  // namespace fettle
