#include "measure/child.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

namespace fettle {
namespace {

using End = ChildOutcome::End;

ChildOutcome run(const std::function<int()>& body, double timeout_s = 10) {
  return run_in_child(body, {.timeout_s = timeout_s});
}

TEST(Child, EndsByItself) {
  const ChildOutcome outcome = run([] { return 7; });
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.code, 7);
}

TEST(Child, ASignalIsReported) {
  const ChildOutcome outcome = run([] { return std::raise(SIGSEGV); });
  EXPECT_EQ(outcome.end, End::kSignalled);
  EXPECT_EQ(outcome.code, SIGSEGV);
  EXPECT_EQ(signal_text(SIGSEGV), "Segmentation fault (signal 11)");
}

TEST(Child, TimeRunsOut) {
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(run([] { return ::pause(); }, 0.05).end, End::kTimedOut);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Child, MemoryIsLimited) {
  const ChildOutcome outcome = run_in_child(
      [] {
        const auto map = [](size_t bytes) {
          return ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED;
        };
        return map(16 << 20) && !map(256 << 20) ? 1 : 2;
      },
      {.memory_bytes = 128 << 20});
  EXPECT_EQ(outcome.end, End::kExited);
  EXPECT_EQ(outcome.code, 1);
}

TEST(Child, LeavesNoCoreFile) {
  EXPECT_EQ(run([] {
              rlimit core{};
              ::getrlimit(RLIMIT_CORE, &core);
              return core.rlim_max == 0 ? 1 : 2;
            }).code,
            1);
}

TEST(Child, MayStartThreads) {
  EXPECT_EQ(run([] {
              int sum = 0;
              std::thread([&] { sum += 3; }).join();
              return sum;
            }).code,
            3);
}

TEST(Child, MayNotStartProcesses) {
  const ChildOutcome outcome = run([] {
    if (::fork() == 0) ::pause();
    return 0;
  });
  EXPECT_TRUE(outcome.end == End::kLeftProcesses || (outcome.end == End::kSignalled && outcome.code == SIGSYS));
}

TEST(Child, GivesUpWhenTheOtherEndCloses) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  std::thread closer([&] {
    ::usleep(50000);
    ::shutdown(ends[1], SHUT_RDWR);
    ::close(ends[1]);
  });
  EXPECT_EQ(run_in_child([] { return ::pause(); }, {.timeout_s = 20}, ends[0]).end, End::kAbandoned);
  closer.join();
  ::close(ends[0]);
}

// Where nothing forbids processes: those that leave the group and the session, and go on forking.
TEST(Child, NothingThatItStartedStays) {
  if (::access("/proc/thread-self/children", R_OK) != 0) GTEST_SKIP() << "this system does not list children";
  int alive[2];
  ASSERT_EQ(::pipe(alive), 0);
  const auto outcome = run_in_child(
      [&]() -> int {
        for (int i = 0; i < 5; ++i)
          if (::fork() == 0) {
            ::setsid();
            if (::fork() == 0) ::setsid();
            for (;;) ::usleep(1000);
          }
        return 0;
      },
      {.timeout_s = 0.5, .forbid_processes = false});
  EXPECT_NE(outcome.end, ChildOutcome::End::kExited);
  // Whoever still lives holds the writing end.
  ::close(alive[1]);
  char byte;
  EXPECT_EQ(::read(alive[0], &byte, 1), 0);
  ::close(alive[0]);
}

// Stopped and continued from outside, both of them: that time is not the child's.
TEST(Child, TimeInWhichAllStandsStillDoesNotCount) {
  const pid_t watcher = ::fork();
  if (watcher == 0) {
    const auto outcome = run_in_child(
        []() -> int {
          ::usleep(600'000);
          return 0;
        },
        {.timeout_s = 1.5});
    ::_exit(outcome.end == ChildOutcome::End::kExited ? 0 : 1);
  }
  ::usleep(200'000);
  const std::string list = "/proc/" + std::to_string(watcher) + "/task/" + std::to_string(watcher) + "/children";
  int child = 0;
  if (std::FILE* file = std::fopen(list.c_str(), "r")) {
    if (std::fscanf(file, "%d", &child) != 1) child = 0;
    std::fclose(file);
  }
  for (const int signal : {SIGSTOP, SIGCONT}) {
    if (child > 0) ::kill(child, signal);
    ::kill(watcher, signal);
    if (signal == SIGSTOP) ::usleep(2'500'000);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(watcher, &status, 0), watcher);
  if (child == 0) GTEST_SKIP() << "this system does not list children";
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace fettle
