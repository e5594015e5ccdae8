#pragma once
// Machine code of micro-kernels, kept by name in memory and, where a folder is given, on disk: a micro-kernel is
// compiled once.

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

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

  /// The object kept under `key`, or null. `key` names the function, target features and versions.
  ObjectBytes find(const std::string& key);
  /// Keeps `object`; returns it shared.
  ObjectBytes put(const std::string& key, std::vector<uint8_t> object);

  int64_t hits() const { return hits_; }
  int64_t misses() const { return misses_; }

 private:
  std::filesystem::path path_of(const std::string& key) const;

  std::filesystem::path folder_;
  std::unordered_map<std::string, ObjectBytes> objects_;
  int64_t hits_ = 0, misses_ = 0;
  bool pruned_ = false;
};

/// What tells this very code generator from another build of it: the build ID of the program or shared library that
/// holds it. Caches of machine code that outlive a process are keyed by it.
std::string program_identity();

/// $FETTLE_CACHE, unless it is "off", $XDG_CACHE_HOME/fettle, or ~/.cache/fettle; empty where none is set.
std::filesystem::path default_cache_folder();

}  // namespace fettle
