#include "rt/team.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "rt/topology.h"

namespace {

struct TeamDeleter {
  void operator()(FettleTeam* team) const { fettle_team_destroy(team); }
};
using Team = std::unique_ptr<FettleTeam, TeamDeleter>;

Team make_team(int threads, int spin_us = 0, int pin = 0) {
  FettleTeamOptions options{};
  options.threads = threads;
  options.spin_us = spin_us;
  options.pin = pin;
  return Team(fettle_team_create(&options));
}

/// Runs a C++ callable as a parallel region.
template <typename F>
void parallel_for(FettleTeam* team, int64_t n, F f) {
  fettle_parallel_for(team, n, [](void* closure, int64_t i) { (*static_cast<F*>(closure))(i); }, &f);
}

TEST(Team, RunsEachIndexOnce) {
  for (const int threads : {1, 2, 3, 5, 9, 23}) {
    const Team team = make_team(threads);
    ASSERT_EQ(fettle_team_size(team.get()), threads);
    for (const int64_t n : {-3, 0, 1, 2, 3, 7, 64, 1000}) {
      std::vector<int> counts(static_cast<size_t>(std::max<int64_t>(n, 0)));
      parallel_for(team.get(), n, [&](int64_t i) { ++counts[static_cast<size_t>(i)]; });
      EXPECT_EQ(std::count(counts.begin(), counts.end(), 1), static_cast<int64_t>(counts.size()))
          << threads << " threads, n = " << n;
    }
  }
}

TEST(Team, GivesContiguousSharesThatDifferByAtMostOne) {
  const Team team = make_team(7);
  std::vector<std::thread::id> who(23);
  parallel_for(team.get(), 23, [&](int64_t i) { who[static_cast<size_t>(i)] = std::this_thread::get_id(); });
  EXPECT_EQ(who[0], std::this_thread::get_id()) << "the caller takes the first share";
  std::vector<int> shares;
  for (size_t i = 0; i < who.size(); ++i) {
    if (i > 0 && who[i] == who[i - 1])
      ++shares.back();
    else
      shares.push_back(1);
  }
  EXPECT_EQ(shares, (std::vector<int>{4, 4, 3, 3, 3, 3, 3}));
}

TEST(Team, RunsBodiesAtTheSameTime) {
  const Team team = make_team(3);
  std::atomic<int> arrived{0};
  parallel_for(team.get(), 3, [&](int64_t) {
    ++arrived;
    while (arrived.load() < 3) std::this_thread::yield();
  });
  EXPECT_EQ(arrived.load(), 3);
}

TEST(Team, ManyShortRegionsSeeEachOthersWrites) {
  for (const int threads : {2, 3, 8}) {
    for (const int spin_us : {0, -1, 1}) {
      const Team team = make_team(threads, spin_us);
      std::vector<int64_t> values(61, 0);
      int64_t expected = 0;
      for (int64_t round = 0; round < 2000; ++round) {
        const int64_t n = 1 + round % 61;
        parallel_for(team.get(), n, [&](int64_t i) { values[static_cast<size_t>(i)] += round; });
        expected += n * round;
      }
      int64_t sum = 0;
      for (const int64_t value : values) sum += value;
      EXPECT_EQ(sum, expected) << threads << " threads, spin " << spin_us;
    }
  }
}

TEST(Team, WakesAfterSleep) {
  const Team team = make_team(2, 1);
  for (int round = 0; round < 20; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> sum{0};
    parallel_for(team.get(), 2, [&](int64_t i) {
      if (i == 1 && round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sum += static_cast<int>(i) + 1;
    });
    EXPECT_EQ(sum.load(), 3);
  }
}

TEST(Team, CallerSleepsForASlowWorkerWhenCrowded) {
  const Team team = make_team(fettle_usable_cpus() + 3);
  std::atomic<int> finished{0};
  parallel_for(team.get(), fettle_team_size(team.get()), [&](int64_t i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ++finished;
  });
  EXPECT_EQ(finished.load(), fettle_team_size(team.get()));
}

TEST(Team, NestedCallsRunSerially) {
  const Team team = make_team(4);
  std::atomic<int> sum{0}, wrong_thread{0};
  parallel_for(team.get(), 4, [&](int64_t) {
    const auto self = std::this_thread::get_id();
    parallel_for(team.get(), 10, [&](int64_t i) {
      sum += static_cast<int>(i);
      if (std::this_thread::get_id() != self) ++wrong_thread;
    });
  });
  EXPECT_EQ(sum.load(), 4 * 45);
  EXPECT_EQ(wrong_thread.load(), 0);
}

TEST(Team, TwoCallersMayShareIt) {
  const Team team = make_team(3);
  std::atomic<int64_t> sum{0};
  auto caller = [&] {
    for (int round = 0; round < 500; ++round) parallel_for(team.get(), 10, [&](int64_t i) { sum += i; });
  };
  std::thread other(caller);
  caller();
  other.join();
  EXPECT_EQ(sum.load(), 2 * 500 * 45);
}

TEST(Team, NullIsOneThread) {
  EXPECT_EQ(fettle_team_size(nullptr), 1);
  int64_t last = -1;
  parallel_for(nullptr, 5, [&](int64_t i) {
    EXPECT_EQ(i, last + 1);
    last = i;
  });
  EXPECT_EQ(last, 4);
}

TEST(Team, NegativeThreadsAreRefused) { EXPECT_EQ(make_team(-1), nullptr); }

TEST(Team, ZeroThreadsMeansTheUsableCpus) { EXPECT_EQ(fettle_team_size(make_team(0).get()), fettle_usable_cpus()); }

TEST(Team, PinnedWorkersStayOnOneCpu) {
  const Team team = make_team(2, 0, 1);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  parallel_for(team.get(), 2, [&](int64_t i) {
    if (i == 1) sched_getaffinity(0, sizeof mask, &mask);
  });
  EXPECT_EQ(CPU_COUNT(&mask), 1);
}

TEST(Team, WorkersTakeNoSignals) {
  const Team team = make_team(2);
  sigset_t blocked;
  sigemptyset(&blocked);
  parallel_for(team.get(), 2, [&](int64_t i) {
    if (i == 1) pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  });
  EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
  EXPECT_EQ(sigismember(&blocked, SIGTERM), 1);
}

TEST(Team, HostsThreadsAreUsedWhereGiven) {
  struct Host {
    int calls = 0;
  } host;
  FettleHostTeam callbacks{};
  callbacks.user = &host;
  callbacks.size = [](void*) -> int32_t { return 12; };
  callbacks.parallel_for = [](void* user, int64_t n, FettleBody body, void* closure) {
    ++static_cast<Host*>(user)->calls;
    for (int64_t i = n - 1; i >= 0; --i) body(closure, i);
  };
  const Team team(fettle_team_wrap(&callbacks));
  ASSERT_NE(team, nullptr);
  EXPECT_EQ(fettle_team_size(team.get()), 12);
  int64_t sum = 0;
  parallel_for(team.get(), 10, [&](int64_t i) { sum += i; });
  EXPECT_EQ(sum, 45);
  EXPECT_EQ(host.calls, 1);
}

TEST(Team, HostWithoutCallbacksIsRefused) {
  FettleHostTeam callbacks{};
  EXPECT_EQ(fettle_team_wrap(&callbacks), nullptr);
  EXPECT_EQ(fettle_team_wrap(nullptr), nullptr);
}

TEST(Topology, ReadsCgroupQuotas) {
  using fettle::rt::quota_cpus;
  EXPECT_EQ(quota_cpus("max 100000\n"), 0);
  EXPECT_EQ(quota_cpus("150000 100000\n"), 2);
  EXPECT_EQ(quota_cpus("100000 100000\n"), 1);
  EXPECT_EQ(quota_cpus("1 100000"), 1);
  EXPECT_EQ(quota_cpus("-1 100000"), 0);
  EXPECT_EQ(quota_cpus(""), 0);
  EXPECT_EQ(quota_cpus("100000"), 0);
  EXPECT_EQ(quota_cpus("100000 0"), 0);
}

TEST(Topology, UsableCoresAreDistinct) {
  int32_t cpus[1024];
  const int32_t count = fettle::rt::usable_cores(cpus, 1024);
  ASSERT_GE(count, 1);
  std::sort(cpus, cpus + count);
  EXPECT_EQ(std::unique(cpus, cpus + count), cpus + count);
  EXPECT_LE(fettle_usable_cpus(), count);
}

}  // namespace
