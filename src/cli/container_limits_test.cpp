#include "cli/container_limits.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

namespace fettle::cli {
namespace {

namespace fs = std::filesystem;

class ContainerLimitsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "fettle-limits-XXXXXX").string();
    ASSERT_TRUE(mkdtemp(name.data()));
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }
  void write(const std::string& file, const std::string& text) const {
    fs::create_directories((root_ / file).parent_path());
    std::ofstream(root_ / file) << text;
  }
  fs::path root_;
};

TEST_F(ContainerLimitsTest, NoneAnywhere) {
  const ContainerLimits limits = read_container_limits(root_);
  EXPECT_FALSE(limits.cpus || limits.memory_bytes || limits.processes);
}

TEST_F(ContainerLimitsTest, TheTightestOnTheWayToTheRoot) {
  write("proc/self/cgroup", "0::/user.slice/job\n");
  write("sys/fs/cgroup/user.slice/cpu.max", "150000 100000\n");
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  write("sys/fs/cgroup/user.slice/job/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/user.slice/job/memory.max", "1073741824\n");
  write("sys/fs/cgroup/pids.max", "500\n");
  const ContainerLimits limits = read_container_limits(root_);
  EXPECT_EQ(limits.cpus, 1.5);
  EXPECT_EQ(limits.memory_bytes, int64_t{1} << 30);
  EXPECT_EQ(limits.processes, 500);
}

TEST_F(ContainerLimitsTest, TheFirstVersion) {
  write("proc/self/cgroup", "5:memory:/docker/ab\n4:cpu,cpuacct:/docker/ab\n2:pids:/docker/ab\n");
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "200000\n");  // the mount's root is the container's group
  write("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/pids/docker/ab/pids.max", "64\n");
  const ContainerLimits limits = read_container_limits(root_);
  EXPECT_EQ(limits.cpus, 2.0);
  EXPECT_FALSE(limits.memory_bytes);
  EXPECT_EQ(limits.processes, 64);
}

TEST_F(ContainerLimitsTest, Nonsense) {
  write("proc/self/cgroup", "x\n0::\n");
  write("sys/fs/cgroup/cpu.max", "0 0\n");
  write("sys/fs/cgroup/memory.max", "-5\n");
  const ContainerLimits limits = read_container_limits(root_);
  EXPECT_FALSE(limits.cpus || limits.memory_bytes);
}

}  // namespace
}  // namespace fettle::cli
