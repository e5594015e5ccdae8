#pragma once
// Files mapped into memory, and bytes shared by the constants that lie in them.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "base/result.h"

namespace fettle::onnx_reader {

/// A file mapped read-only; unmapped when the last reference goes.
struct MappedFile {
  std::shared_ptr<const std::byte> bytes;
  int64_t size_bytes = 0;
};

/// E601 the file cannot be opened, is no regular file, or is empty.
Result<MappedFile> map_file(const std::string& path);

/// External data of one model: files beneath its folder, each mapped once.
class ExternalFiles {
 public:
  explicit ExternalFiles(std::string folder) : folder_(std::move(folder)) {}

  /// [offset, offset + length) of the file at `location`, relative to the folder; length -1: to its end.
  /// E607 the location is absolute, leaves the folder (".." or a symbolic link), cannot be read or is too short.
  Result<MappedFile> slice(const std::string& location, int64_t offset, int64_t length);

 private:
  std::string folder_;
  std::map<std::string, MappedFile> files_;
};

}  // namespace fettle::onnx_reader
