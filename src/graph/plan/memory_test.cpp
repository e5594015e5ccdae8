#include "graph/plan/memory.h"

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <string>

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

using Sizes = std::map<std::string, int64_t>;

int64_t number(const Dim& dim, const Sizes& sizes) {
  return dim.substitute([&](std::string_view size) { return std::optional<Dim>(sizes.at(std::string(size))); }).value();
}

// The plan's own sizes beside those that are given.
Sizes with_places(const ArenaPlan& plan, Sizes sizes) {
  for (const ArenaPlace& place : plan.places) {
    int64_t& offset = sizes[place.offset.to_string()];
    for (const Dim& end : place.ends) offset = std::max(offset, number(end, sizes));
  }
  return sizes;
}

int64_t bytes_of(const ArenaPlan& plan, const Sizes& given) {
  return number(plan.size_bytes, with_places(plan, given));
}

// Whether nothing that lives at the same time overlaps, and all lies in the arena, for these sizes.
void expect_apart(const std::vector<Lifetime>& lifetimes, const ArenaPlan& plan, const Sizes& given) {
  const Sizes sizes = with_places(plan, given);
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const int64_t begin = number(plan.offsets[i], sizes), end = begin + number(lifetimes[i].size_bytes, sizes);
    EXPECT_EQ(begin % kArenaAlignment, 0);
    EXPECT_LE(end, number(plan.size_bytes, sizes));
    for (size_t j = 0; j < i; ++j) {
      const bool together =
          lifetimes[i].first_step <= lifetimes[j].last_step && lifetimes[j].first_step <= lifetimes[i].last_step;
      const int64_t other = number(plan.offsets[j], sizes), other_end = other + number(lifetimes[j].size_bytes, sizes);
      EXPECT_TRUE(!together || end <= other || other_end <= begin) << i << " and " << j;
    }
  }
}

// Scores grow with the square of the tokens, all else with their number: what lies well for few lies badly for many.
TEST(PlanArena, OrdersSuitSizesFarFromTypicalOnes) {
  const auto attention = [](const Dim& tokens) {
    const Dim rows = tokens * 3072, scores = tokens * tokens * 48;
    return std::vector<Lifetime>{{rows, 0, 1}, {rows * 3, 1, 9}, {scores, 2, 3}, {scores, 3, 4},
                                 {rows, 4, 5}, {rows, 5, 8},     {rows, 6, 7},   {rows * 4, 7, 8}};
  };
  const std::vector<Lifetime> open = attention(Dim::symbol("tokens", 1, 1024, 1, 128));
  const ArenaPlan plan = plan_arena(open);
  for (const int64_t tokens : {8, 64, 128, 198, 256, 512}) {
    std::map<std::string, int64_t> sizes{{"tokens", tokens}};
    expect_apart(open, plan, sizes);
    const int64_t least = plan_arena(attention(tokens)).size_bytes.value();
    EXPECT_LE(static_cast<double>(bytes_of(plan, sizes)), 1.1 * static_cast<double>(least)) << tokens;
  }
}

std::vector<Lifetime> random_lifetimes(RandomStream& random, const std::function<Dim()>& size) {
  std::vector<Lifetime> lifetimes;
  for (uint64_t i = 0, n = 1 + random.below(30); i < n; ++i) {
    const auto first = static_cast<int>(random.below(20));
    lifetimes.push_back({size(), first, first + static_cast<int>(random.below(6))});
  }
  return lifetimes;
}

TEST(PlanArena, NothingAliveOverlaps) {
  RandomStream random{7};
  for (int round = 0; round < 200; ++round) {
    const auto lifetimes = random_lifetimes(
        random, [&] { return Dim(random.below(4) == 0 ? 0 : static_cast<int64_t>(1 + random.below(5000))); });
    const ArenaPlan plan = plan_arena(lifetimes);
    EXPECT_TRUE(plan.places.empty());
    expect_apart(lifetimes, plan, {});
  }
}

TEST(PlanArena, NothingAliveOverlapsWhateverTheSizes) {
  RandomStream random{8};
  const Dim n = Dim::symbol("N", 0, 1000, 1, 20), s = Dim::symbol("S");
  for (int round = 0; round < 100; ++round) {
    const auto lifetimes = random_lifetimes(random, [&]() -> Dim {
      const auto number = static_cast<int64_t>(1 + random.below(300));
      switch (random.below(5)) {
        case 0:
          return number;
        case 1:
          return n * number;
        case 2:
          return n * s * 4;
        case 3:
          return 0;
        default:
          return floordiv(s + 1, 2) * number + 12;
      }
    });
    const ArenaPlan plan = plan_arena(lifetimes);
    for (const auto& [of_n, of_s] : {std::pair(20, 64), {1, 1}, {0, 0}, {1000, 1}, {1, 1000}, {77, 31}})
      expect_apart(lifetimes, plan, {{"N", of_n}, {"S", of_s}});
  }
}

}  // namespace
}  // namespace fettle
