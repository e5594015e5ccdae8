#include "cli/container_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace fettle::cli {
namespace {

namespace fs = std::filesystem;

// Larger numbers stand for "no limit" in version 1.
constexpr double kNoLimit = 1e18;

std::vector<std::string> words_of(const fs::path& file) {
  std::vector<std::string> words;
  std::ifstream in(file);
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::optional<double> number(const std::string& word) {
  double value = 0;
  std::istringstream in(word);
  if (!(in >> value) || !(value > 0) || value > kNoLimit) return std::nullopt;
  return value;
}

template <class T>
void tighten(std::optional<T>& limit, std::optional<double> found) {
  if (found) limit = std::min(limit.value_or(static_cast<T>(*found)), static_cast<T>(*found));
}

// One group's folder: "MAX PERIOD" or "max PERIOD" in cpu.max, and so on.
void read_version_2(const fs::path& folder, ContainerLimits& limits) {
  if (const auto cpu = words_of(folder / "cpu.max"); cpu.size() == 2) {
    const auto quota = number(cpu[0]), period = number(cpu[1]);
    if (quota && period) tighten(limits.cpus, *quota / *period);
  }
  if (const auto memory = words_of(folder / "memory.max"); !memory.empty())
    tighten(limits.memory_bytes, number(memory[0]));
  if (const auto processes = words_of(folder / "pids.max"); !processes.empty())
    tighten(limits.processes, number(processes[0]));
}

void read_version_1(const fs::path& folder, const std::string& controllers, ContainerLimits& limits) {
  const auto first = [&](const char* file) {
    const auto words = words_of(folder / file);
    return words.empty() ? std::nullopt : number(words[0]);
  };
  if (controllers.find("cpu") != std::string::npos) {
    const auto quota = first("cpu.cfs_quota_us"), period = first("cpu.cfs_period_us");
    if (quota && period) tighten(limits.cpus, *quota / *period);
  }
  if (controllers == "memory") tighten(limits.memory_bytes, first("memory.limit_in_bytes"));
  if (controllers == "pids") tighten(limits.processes, first("pids.max"));
}

}  // namespace

ContainerLimits read_container_limits(const fs::path& root) {
  ContainerLimits limits;
  const fs::path mount = root / "sys/fs/cgroup";
  std::ifstream groups(root / "proc/self/cgroup");
  // "0::/user.slice/x" in version 2; "4:cpu,cpuacct:/x" in version 1.
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path base = controllers.empty() ? mount : mount / controllers;
    // Inside a container the path may be the host's, and only the mount's root be there.
    for (fs::path at = fs::path(line.substr(second + 1)).relative_path();; at = at.parent_path()) {
      if (controllers.empty())
        read_version_2(base / at, limits);
      else
        read_version_1(base / at, controllers, limits);
      if (at.empty()) break;
    }
  }
  return limits;
}

}  // namespace fettle::cli
