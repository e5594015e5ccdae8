#pragma once
// Files mapped into memory, and bytes shared by the constants that lie in them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "graph/limits.h"

namespace fettle::onnx_reader {

/// A file mapped read-only; unmapped when the last reference goes.
struct MappedFile {
  std::shared_ptr<const std::byte> bytes;
  int64_t size_bytes = 0;
};

/// E601 the file cannot be opened, is no regular file, or is empty.
Result<MappedFile> map_file(const std::string& path);

/// How a path beneath a folder is followed.
enum class Beneath : uint8_t {
  kKernel,     // by openat2, which also follows symbolic links that stay beneath; else as kComponent
  kComponent,  // one folder after the other, without symbolic links
};
/// Opens the file at `location` beneath `folder`, a handle of it, for reading: a descriptor. Nobody who renames folders
/// meanwhile can lead it elsewhere.
/// E607 the location is empty or absolute, has "..", leaves the folder by a symbolic link, or cannot be opened.
Result<int> open_beneath(int folder, const std::string& location, Beneath how = Beneath::kKernel);

/// Where the external data of a model lie.
struct ExternalData {
  std::optional<std::string> folder;                 // nothing: in no file; empty: the current one
  std::map<std::string, MappedFile> in_memory = {};  // by location, instead of files
};

/// External data of one model: files beneath its folder, each mapped once.
class ExternalFiles {
 public:
  explicit ExternalFiles(ExternalData data, const Limits& limits = {})
      : folder_(std::move(data.folder)), limits_(limits), files_(std::move(data.in_memory)) {}
  explicit ExternalFiles(std::string folder, const Limits& limits = {})
      : ExternalFiles(ExternalData{std::move(folder)}, limits) {}
  ~ExternalFiles();
  ExternalFiles(const ExternalFiles&) = delete;
  ExternalFiles& operator=(const ExternalFiles&) = delete;

  /// [offset, offset + length) of the file at `location`, relative to the folder; length -1: to its end.
  /// E607 as open_beneath, or it is no regular file, or too short, or there is no folder · E608 the file is too large
  Result<MappedFile> slice(const std::string& location, int64_t offset, int64_t length);

 private:
  Result<MappedFile> map(const std::string& location);

  std::optional<std::string> folder_;
  Limits limits_;
  int folder_handle_ = -1;
  std::map<std::string, MappedFile> files_;
};

}  // namespace fettle::onnx_reader
