#include "graph/plan/memory.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace fettle {
namespace {

TEST(PlanArena, ReusesWhatIsDead) {
  // a chain: each result is read by the next step only
  const ArenaPlan plan = plan_arena({{1000, 0, 1}, {1000, 1, 2}, {1000, 2, 3}, {1000, 3, 4}});
  EXPECT_EQ(plan.size_bytes.value(), 2 * 1024);
  EXPECT_NE(plan.offsets[0], plan.offsets[1]);
  EXPECT_NE(plan.offsets[1], plan.offsets[2]);
  EXPECT_EQ(plan.offsets[0], plan.offsets[2]);
}

TEST(PlanArena, SmallOnesFillGaps) {
  const ArenaPlan plan = plan_arena({{4096, 0, 5}, {1024, 0, 2}, {512, 3, 5}, {512, 3, 5}});
  EXPECT_EQ(plan.size_bytes.value(), 4096 + 1024);
}

TEST(PlanArena, NothingAliveOverlaps) {
  RandomStream random{7};
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> lifetimes;
    for (uint64_t i = 0, n = 1 + random.below(30); i < n; ++i) {
      const auto first = static_cast<int>(random.below(20));
      lifetimes.push_back(
          {static_cast<int64_t>(1 + random.below(5000)), first, first + static_cast<int>(random.below(6))});
    }
    const ArenaPlan plan = plan_arena(lifetimes);
    for (size_t i = 0; i < lifetimes.size(); ++i) {
      EXPECT_EQ(plan.offsets[i].value() % kArenaAlignment, 0);
      EXPECT_LE((plan.offsets[i] + lifetimes[i].size_bytes).value(), plan.size_bytes.value());
      for (size_t j = 0; j < i; ++j) {
        const bool together =
            lifetimes[i].first_step <= lifetimes[j].last_step && lifetimes[j].first_step <= lifetimes[i].last_step;
        const bool apart = (plan.offsets[i] + lifetimes[i].size_bytes - plan.offsets[j]).value() <= 0 ||
                           (plan.offsets[j] + lifetimes[j].size_bytes - plan.offsets[i]).value() <= 0;
        EXPECT_TRUE(!together || apart) << i << " and " << j;
      }
    }
  }
}

}  // namespace
}  // namespace fettle
