#pragma once
// What the container, or whoever else made the control groups that this process is in, lets it have.

#include <cstdint>
#include <filesystem>
#include <optional>

namespace fettle::cli {

/// The tightest limit on the way from this process's group to the root; nothing where there is none.
struct ContainerLimits {
  std::optional<double> cpus;  // CPU time a second
  std::optional<int64_t> memory_bytes;
  std::optional<int64_t> processes;  // and threads
};

/// root: stands for "/", so that tests can make one of their own. Control groups of version 2 and 1.
ContainerLimits read_container_limits(const std::filesystem::path& root = "/");

}  // namespace fettle::cli
