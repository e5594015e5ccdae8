#include "runtime/openmp_team.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace fettle {
namespace {

/// An OpenMP library that gives at most three threads, however many are asked for.
thread_local int thread_number = 0, region_threads = 1;
std::atomic<int> regions{0};

const OpenMp three_threads{
    .parallel =
        [](void (*work)(void*), void* data, unsigned threads, unsigned) {
          ++regions;
          const int given = threads < 3 ? static_cast<int>(threads) : 3;
          std::vector<std::jthread> running;
          for (int t = 0; t < given; ++t) {
            running.emplace_back([=] {
              thread_number = t;
              region_threads = given;
              work(data);
            });
          }
        },
    .thread_num = [] { return thread_number; },
    .num_threads = [] { return region_threads; },
    .max_threads = [] { return 8; },
};

TEST(OpenMpTeam, EachIterationRunsOnceWhereFewerThreadsAreGiven) {
  const FettleHostTeam team = openmp_team(three_threads);
  EXPECT_EQ(team.size(team.user), 8);
  for (const int64_t n : {1, 2, 3, 8, 100}) {
    std::vector<std::atomic<int>> times(static_cast<size_t>(n));
    regions = 0;
    team.parallel_for(
        team.user, n,
        [](void* closure, int64_t i) {
          ++(*static_cast<std::vector<std::atomic<int>>*>(closure))[static_cast<size_t>(i)];
        },
        &times);
    EXPECT_EQ(regions, n > 1 ? 1 : 0);
    for (const auto& ran : times) EXPECT_EQ(ran, 1) << n;
  }
}

TEST(OpenMpTeam, HasAtLeastTheCaller) {
  OpenMp none = three_threads;
  none.max_threads = [] { return 0; };
  const FettleHostTeam team = openmp_team(none);
  EXPECT_EQ(team.size(team.user), 1);
}

}  // namespace
}  // namespace fettle
