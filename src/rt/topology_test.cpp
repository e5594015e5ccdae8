#include "rt/topology.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "rt/team.h"

namespace {

namespace fs = std::filesystem;
using fettle::rt::cgroup_cpus;
using fettle::rt::quota_cpus;

/// A folder that stands for "/", with files of our own.
class FakeRoot {
 public:
  FakeRoot() {
    std::string name = fs::temp_directory_path() / "fettle-root-XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~FakeRoot() { fs::remove_all(root_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const fs::path file = root_ + path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const char* path() const { return root_.c_str(); }

 private:
  std::string root_;
};

TEST(Topology, ReadsCgroupQuotas) {
  EXPECT_EQ(quota_cpus("max 100000\n"), 0);
  EXPECT_EQ(quota_cpus("150000 100000\n"), 1);
  EXPECT_EQ(quota_cpus("250000 100000\n"), 2);
  EXPECT_EQ(quota_cpus("100000 100000\n"), 1);
  EXPECT_EQ(quota_cpus("1 100000"), 1);
  EXPECT_EQ(quota_cpus("-1 100000"), 0);
  EXPECT_EQ(quota_cpus(""), 0);
  EXPECT_EQ(quota_cpus("100000"), 0);
  EXPECT_EQ(quota_cpus("100000 0"), 0);
}

TEST(Topology, NoControlGroupsIsNoLimit) {
  const FakeRoot root;
  EXPECT_EQ(cgroup_cpus(root.path()), 0);
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/sys/fs/cgroup/cgroup.controllers", "cpu\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 0);
}

TEST(Topology, TheSmallestQuotaOfTheGroupsAroundCounts) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/pod/container\n");
  root.write("/sys/fs/cgroup/pod/cpu.max", "350000 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 3);
  root.write("/sys/fs/cgroup/pod/container/cpu.max", "max 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 3);
  root.write("/sys/fs/cgroup/pod/container/cpu.max", "50000 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 1);
  root.write("/sys/fs/cgroup/pod/container/cpu.max", "900000 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 3);
}

TEST(Topology, AContainerSeesItsOwnGroupAtTheMount) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "0::/\n");
  root.write("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 2);
}

TEST(Topology, Version1IsReadWhereverItIsMounted) {
  const char* groups = "9:name=systemd:/\n4:cpuset:/elsewhere\n3:cpu,cpuacct:/docker/0123\n0::/\n";
  for (const std::string mount : {"/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"}) {
    const FakeRoot root;
    root.write("/proc/self/cgroup", groups);
    root.write(mount + "/docker/0123/cpu.cfs_quota_us", "-1\n");
    root.write(mount + "/docker/0123/cpu.cfs_period_us", "100000\n");
    EXPECT_EQ(cgroup_cpus(root.path()), 0) << mount;
    root.write(mount + "/docker/cpu.cfs_quota_us", "75000\n");
    root.write(mount + "/docker/cpu.cfs_period_us", "25000\n");
    EXPECT_EQ(cgroup_cpus(root.path()), 3) << mount;
  }
  const FakeRoot root;  // the host's path of the group, which a container does not see
  root.write("/proc/self/cgroup", groups);
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "200000\n");
  root.write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 2);
}

TEST(Topology, OddFilesAreNoLimit) {
  const FakeRoot root;
  root.write("/proc/self/cgroup", "nonsense\n::\n:cpu\n0::/" + std::string(3000, 'x') + "\n0::/a");
  root.write("/sys/fs/cgroup/a/cpu.max", "what?\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 0);
  root.write("/sys/fs/cgroup/a/cpu.max", "400000 100000\n");
  EXPECT_EQ(cgroup_cpus(root.path()), 4);
}

/// For real, where this process may make control groups.
TEST(Topology, AQuotaSetsTheNumberOfThreads) {
  for (const bool old : {true, false}) {
    const std::string mount = old ? "/sys/fs/cgroup/cpu" : "/sys/fs/cgroup";
    const std::string group = mount + "/fettle-test-" + std::to_string(getpid());
    std::error_code error;
    if (!fs::exists(mount + (old ? "/cpu.cfs_quota_us" : "/cgroup.subtree_control"))) continue;
    if (!fs::create_directory(group, error)) continue;
    std::ofstream(group + (old ? "/cpu.cfs_quota_us" : "/cpu.max")) << (old ? "100000" : "100000 100000");
    const pid_t child = fork();
    if (child == 0) {
      std::ofstream procs(group + "/cgroup.procs");
      procs << getpid();
      procs.close();
      const bool quota_is_set = fs::exists(group + (old ? "/cpu.cfs_quota_us" : "/cpu.max"));
      _exit(!procs.good() || !quota_is_set || fettle_usable_cpus() == 1 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << mount;
    EXPECT_EQ(rmdir(group.c_str()), 0) << mount;
  }
}

std::vector<int32_t> order(const char* root, uint64_t usable) {
  fettle::rt::CpuMask mask{};
  mask.words[0] = usable;
  std::vector<int32_t> cpus(64);
  cpus.resize(static_cast<size_t>(fettle::rt::usable_cores(root, mask, cpus.data(), 64)));
  return cpus;
}

TEST(Topology, FastCoresComeFirstThenSlowOnesThenSiblings) {
  const FakeRoot root;
  for (int cpu = 0; cpu < 8; ++cpu) {
    const std::string list = cpu >= 4 ? std::to_string(cpu) : cpu < 2 ? "0-1" : "2,3";
    root.write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list + "\n");
  }
  root.write("/sys/devices/cpu_atom/cpus", "4-5,7\n");
  EXPECT_EQ(order(root.path(), 0xff), (std::vector<int32_t>{0, 2, 6, 4, 5, 7, 1, 3}));
  // Without 0, which is offline or not allowed, 1 is a core of its own.
  EXPECT_EQ(order(root.path(), 0x2a), (std::vector<int32_t>{1, 3, 5}));
  EXPECT_EQ(order(root.path(), 0), (std::vector<int32_t>{}));
}

TEST(Topology, UsableCoresAreDistinct) {
  fettle::rt::CpuMask mask;
  ASSERT_TRUE(fettle::rt::affinity(mask));
  int32_t cpus[1024];
  const int32_t count = fettle::rt::usable_cores("", mask, cpus, 1024);
  ASSERT_GE(count, 1);
  std::sort(cpus, cpus + count);
  EXPECT_EQ(std::unique(cpus, cpus + count), cpus + count);
  EXPECT_LE(fettle_usable_cpus(), count);
}

}  // namespace
