#pragma once
// Parts of the detection of this machine, apart so that they can be tested on given text.

#include <filesystem>
#include <string>
#include <vector>

#include "target/target.h"

namespace fettle {

std::vector<MemoryScope> cpu_scopes(const Target& target);

/// The data caches that `folder` (/sys/devices/system/cpu/cpu0/cache) lists, innermost first; empty if there is none.
/// shared_by_threads counts only CPUs that `usable` says, at least one.
std::vector<CacheLevel> read_caches(const std::filesystem::path& folder, int usable);
/// "48K", "1024K", "32M" → bytes; 0 if it is no size.
int64_t parse_cache_size(std::string_view text);
/// CPUs in a list such as "0-3,8,10-11".
int count_cpu_list(std::string_view text);

}  // namespace fettle
