#include "rt/team.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <thread>
#include <vector>

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

TEST(Team, BeginsWithContiguousSharesThatDifferByAtMostOne) {
  const Team team = make_team(7);
  std::vector<std::thread::id> who(23);
  // Whoever begins waits until all have begun, so the first iteration of each share is its owner's.
  std::atomic<int> begun{0};
  parallel_for(team.get(), 23, [&](int64_t i) {
    who[static_cast<size_t>(i)] = std::this_thread::get_id();
    const std::vector<int64_t> starts = {0, 4, 8, 11, 14, 17, 20};
    if (std::find(starts.begin(), starts.end(), i) == starts.end()) return;
    ++begun;
    while (begun.load() < 7) std::this_thread::yield();
  });
  EXPECT_EQ(who[0], std::this_thread::get_id()) << "the caller takes the first share";
  std::set<std::thread::id> owners = {who[0], who[4], who[8], who[11], who[14], who[17], who[20]};
  EXPECT_EQ(owners.size(), 7u);
}

TEST(Team, OthersTakeOverFromASlowThread) {
  const Team team = make_team(2);
  std::atomic<int> elsewhere{0};
  std::atomic<bool> slow_begun{false};
  // The worker's first iteration lasts until all of its others have been done by the caller.
  parallel_for(team.get(), 32, [&](int64_t i) {
    if (i == 0)
      while (!slow_begun.load()) std::this_thread::yield();
    if (i < 16) return;
    if (!slow_begun.exchange(true)) {
      // It has claimed a quarter of its share; the caller takes the rest.
      while (elsewhere.load() < 12) std::this_thread::yield();
    } else {
      ++elsewhere;
    }
  });
  EXPECT_EQ(elsewhere.load(), 15);
}

TEST(Team, DoesNotWaitForAWorkerThatDoesNotCome) {
  const Team team = make_team(2);
  // Another caller keeps the only worker busy elsewhere: not possible through the team, so bind both to one CPU, where
  // the worker cannot run while the caller does.
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  std::atomic<pid_t> worker{0};
  parallel_for(team.get(), 2, [&](int64_t i) {
    if (i == 1)
      worker = gettid();
    else
      while (worker.load() == 0) std::this_thread::yield();
  });
  CPU_ZERO(&one);
  for (int cpu = 0; CPU_COUNT(&one) == 0; ++cpu)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  sched_setaffinity(0, sizeof one, &one);
  sched_setaffinity(worker.load(), sizeof one, &one);
  for (const int64_t n : {2, 9}) {
    for (int round = 0; round < 50; ++round) {
      std::atomic<int> sum{0};
      parallel_for(team.get(), n, [&](int64_t i) { sum += static_cast<int>(i); });
      EXPECT_EQ(sum.load(), n * (n - 1) / 2);
    }
  }
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Team, ManyIterationsAreClaimedInPieces) {
  const Team team = make_team(3);
  std::vector<uint8_t> counts(200'003);
  for (int round = 0; round < 3; ++round)
    parallel_for(team.get(), static_cast<int64_t>(counts.size()), [&](int64_t i) { ++counts[static_cast<size_t>(i)]; });
  EXPECT_EQ(std::count(counts.begin(), counts.end(), 3), static_cast<int64_t>(counts.size()));
}

double process_cpu_ms() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto ms = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_usec) / 1e3;
  };
  return ms(usage.ru_utime) + ms(usage.ru_stime);
}

TEST(Team, SleepsWhenIdle) {
  for (const int threads : {2, 2 * fettle_usable_cpus()}) {
    const Team team = make_team(threads);
    parallel_for(team.get(), threads, [](int64_t) {});
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const double before = process_cpu_ms();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LT(process_cpu_ms() - before, 10) << "spinning would take 200 ms for each thread";
  }
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

TEST(Team, PinnedWorkersStayOnOneCpuOfThoseAllowed) {
  cpu_set_t before;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  const Team team = make_team(2, 0, 1);
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::atomic<bool> told{false};
  parallel_for(team.get(), 2, [&](int64_t i) {
    if (i == 1) {
      sched_getaffinity(0, sizeof mask, &mask);
      told = true;
    } else {
      while (!told.load()) std::this_thread::yield();
    }
  });
  EXPECT_EQ(CPU_COUNT(&mask), 1);
  cpu_set_t both;
  CPU_AND(&both, &mask, &before);
  EXPECT_TRUE(CPU_EQUAL(&both, &mask));
}

TEST(Team, PinnedTeamRespectsANarrowAffinityMask) {
  cpu_set_t before, one;
  ASSERT_EQ(sched_getaffinity(0, sizeof before, &before), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &before)) last = cpu;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  sched_setaffinity(0, sizeof one, &one);
  EXPECT_EQ(fettle_usable_cpus(), 1);
  {
    const Team team = make_team(3, 0, 1);
    std::atomic<int> elsewhere{0};
    parallel_for(team.get(), 3, [&](int64_t) { elsewhere += sched_getcpu() != last; });
    EXPECT_EQ(elsewhere.load(), 0);
  }
  sched_setaffinity(0, sizeof before, &before);
}

TEST(Team, WorkersTakeNoSignals) {
  const Team team = make_team(2);
  sigset_t blocked;
  sigemptyset(&blocked);
  std::atomic<bool> told{false};
  parallel_for(team.get(), 2, [&](int64_t i) {
    if (i == 1) {
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      told = true;
    } else {
      while (!told.load()) std::this_thread::yield();
    }
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

TEST(Team, OthersThreadsTakeSharesAndThenWhatIsLeft) {
  const auto start = [](void* user, int64_t n, FettleBody part, void* region) {
    *static_cast<int64_t*>(user) = n;
    std::vector<std::jthread> threads;
    for (int64_t i = 0; i < n; ++i) threads.emplace_back([=] { part(region, i); });
  };
  for (const int64_t n : {1, 2, 3, 50, 200'000}) {
    struct Work {
      int64_t n;
      std::vector<std::atomic<int>> times;
      std::atomic<int64_t> left;
    } work{.n = n, .times = std::vector<std::atomic<int>>(static_cast<size_t>(n)), .left = n};
    // The first iteration waits until others have taken over the most of its share, which is a third.
    const FettleBody body = [](void* closure, int64_t i) {
      auto& [all, times, left] = *static_cast<Work*>(closure);
      ++times[static_cast<size_t>(i)];
      --left;
      if (i == 0 && all > 3)
        while (left > all / 4) std::this_thread::yield();
    };
    int64_t started = 0;
    fettle_share_out(n, 3, body, &work, start, &started);
    EXPECT_EQ(started, n == 1 ? 0 : std::min<int64_t>(n, 3));
    for (const auto& ran : work.times) ASSERT_EQ(ran, 1) << n;
  }
}

TEST(Team, HostWithoutCallbacksIsRefused) {
  FettleHostTeam callbacks{};
  EXPECT_EQ(fettle_team_wrap(&callbacks), nullptr);
  EXPECT_EQ(fettle_team_wrap(nullptr), nullptr);
}

}  // namespace
