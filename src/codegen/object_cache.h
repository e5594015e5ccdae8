#pragma once
// Machine code of micro-kernels, kept by name in memory and, where a folder is given, on disk: a micro-kernel is
// compiled once. Threads may share a cache.

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/function_ref.h"
#include "base/result.h"

namespace fettle {

/// A relocatable object; shared, never changed.
using ObjectBytes = std::shared_ptr<const std::vector<uint8_t>>;

class ObjectCache {
 public:
  /// In memory only.
  ObjectCache() = default;
  /// `folder` is made when something is first kept; a folder that cannot be written is as none. Files are written to a
  /// temporary name and renamed, carry their length and a digest, and one that does not fit these is no hit.
  /// Beyond 64 MiB the oldest are dropped.
  explicit ObjectCache(std::filesystem::path folder) : folder_(std::move(folder)) {}

  using Make = FunctionRef<Result<std::vector<uint8_t>>()>;
  enum class IfBusy { kWait, kSkip };

  /// The object kept under `key`, which names the function, target features and versions; where there is none, what
  /// `make` makes. Threads that ask at the same time make it once: the others wait, or skip it and get null.
  Result<ObjectBytes> get(const std::string& key, Make make, IfBusy if_busy = IfBusy::kWait);

  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  Result<ObjectBytes> read_or_make(const std::string& key, Make make);
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
  std::mutex mutex_;
  std::condition_variable made_;
  std::unordered_map<std::string, ObjectBytes> objects_;  // null: somebody is making it
  std::atomic<int64_t> hits_ = 0, misses_ = 0;
  std::once_flag pruned_;
};

/// What tells this very code generator from another build of it: the build ID of the program or shared library that
/// holds it. Caches of machine code that outlive a process are keyed by it.
std::string program_identity();

/// $FETTLE_CACHE, unless it is "off", $XDG_CACHE_HOME/fettle, or ~/.cache/fettle; empty where none is set.
std::filesystem::path default_cache_folder();

}  // namespace fettle
