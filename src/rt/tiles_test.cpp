#include "rt/tiles.h"

#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <thread>

#include "rt/cpu.h"
#include "rt/team.h"
#include "rt/testing.h"

namespace fettle::rt {
namespace {

bool has_tiles() {
  char missing[32];
  return fettle_cpu_check("amx-tile", missing, sizeof missing) == 0;
}

struct alignas(64) Config {
  uint8_t bytes[64] = {};
};

// Two tiles of a caller's own shape: number 0 of 3 rows of 8 bytes, number 5 of 16 rows of 64.
Config callers_config() {
  Config config;
  config.bytes[0] = 1;
  config.bytes[16] = 8;
  config.bytes[16 + 2 * 5] = 64;
  config.bytes[48] = 3;
  config.bytes[48 + 5] = 16;
  return config;
}

Config current_config() {
  Config config;
  __asm__ volatile("sttilecfg %0" : "=m"(config));
  return config;
}

// A callee that fills every tile with other numbers.
void overwrite_tiles() {
  alignas(64) char other[1024];
  std::memset(other, 0x77, sizeof other);
  const int64_t stride = 64;
  __asm__ volatile(
      "tileloadd (%0,%1,1), %%tmm0\n\ttileloadd (%0,%1,1), %%tmm5\n\ttileloadd (%0,%1,1), %%tmm7" ::"r"(other),
      "r"(stride)
      : "memory");
}

TEST(Tiles, AThreadWithoutTilesHasNoneAfterwards) {
  if (!has_tiles()) GTEST_SKIP() << "no tile unit";
  alignas(64) FettleTileState before;
  fettle_tiles_begin(&before);
  EXPECT_EQ(current_config().bytes[0], 1);
  EXPECT_EQ(current_config().bytes[48 + 7], 16);
  overwrite_tiles();
  fettle_tiles_end(&before);
  EXPECT_EQ(std::memcmp(current_config().bytes, Config().bytes, 64), 0);
}

TEST(Tiles, WhatTheCallerHadIsBackAfterwards) {
  if (!has_tiles()) GTEST_SKIP() << "no tile unit";
  const Config config = callers_config();
  alignas(64) unsigned char narrow[3 * 8], whole[1024], after_narrow[3 * 8] = {}, after_whole[1024] = {};
  for (size_t i = 0; i < sizeof narrow; ++i) narrow[i] = static_cast<unsigned char>(i + 1);
  for (size_t i = 0; i < sizeof whole; ++i) whole[i] = static_cast<unsigned char>(i * 7);
  const int64_t eight = 8, sixty_four = 64;
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm0" ::"r"(narrow), "r"(eight) : "memory");
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm5" ::"r"(whole), "r"(sixty_four) : "memory");
  alignas(64) FettleTileState before;
  fettle_tiles_begin(&before);
  overwrite_tiles();
  fettle_tiles_end(&before);
  const Config now = current_config();
  __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" ::"r"(after_narrow), "r"(eight) : "memory");
  __asm__ volatile("tilestored %%tmm5, (%0,%1,1)" ::"r"(after_whole), "r"(sixty_four) : "memory");
  __asm__ volatile("tilerelease");
  EXPECT_EQ(std::memcmp(now.bytes, config.bytes, 64), 0);
  EXPECT_EQ(std::memcmp(narrow, after_narrow, sizeof narrow), 0);
  EXPECT_EQ(std::memcmp(whole, after_whole, sizeof whole), 0);
}

// What a process that may not ask for the tile unit is told.
TEST(Tiles, AreNotClaimedWhereTheSystemRefuses) {
  if (!has_tiles()) GTEST_SKIP() << "no tile unit";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const sock_fprog program = {.len = sizeof code / sizeof code[0], .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      _exit(2);
    char missing[32] = "";
    const bool refused = fettle_cpu_check("avx2,amx-tile", missing, sizeof missing) == 1;
    _exit(refused && std::strcmp(missing, "amx-tile") == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no filters of system calls";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

// The system refuses where a thread's alternate stack for signals has no room for tiles; a process that has permission
// keeps it, so another asks.
TEST(Tiles, AreNotClaimedWhereAnAlternateStackIsSmall) {
  if (!has_tiles()) GTEST_SKIP() << "no tile unit";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    execl("/proc/self/exe", "test_rt", "--gtest_filter=Tiles.DISABLED_AskWithASmallAlternateStack",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST(Tiles, DISABLED_AskWithASmallAlternateStack) {
  static unsigned char memory[8192];  // as much as all other registers need; tiles are 8 KiB by themselves
  const stack_t small = {.ss_sp = memory, .ss_flags = 0, .ss_size = sizeof memory};
  ASSERT_EQ(sigaltstack(&small, nullptr), 0);
  char missing[32] = "";
  EXPECT_EQ(fettle_cpu_check("avx2,amx-tile", missing, sizeof missing), 1);
  EXPECT_STREQ(missing, "amx-tile");
}

}  // namespace
}  // namespace fettle::rt
