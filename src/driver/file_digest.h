#pragma once
// Digests of whole files, remembered as long as the files stay as they are.

#include <cstddef>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/result.h"

namespace fettle {

/// What the system says of a file: it changes where the content does.
struct FileStamp {
  std::string text;         // device, inode, size and times
  bool is_settled = false;  // so old that a later change must change it
  friend bool operator==(const FileStamp& a, const FileStamp& b) { return a.text == b.text; }
};
/// E601
Result<FileStamp> stamp_of(const std::filesystem::path& path);

/// Digests of models and of the files that they name, in a folder of notes.
class FileDigests {
 public:
  explicit FileDigests(std::filesystem::path folder) : folder_(std::move(folder)) {}

  struct Known {
    Digest digest;
    std::vector<std::string> parts;  // files that belong to it, beneath its folder
  };
  /// Reads the file where nothing is known of it as it is now. `parts`: asked for then.
  /// Errors: E601, and those of `parts`.
  Result<Known> of_file(const std::filesystem::path& path,
                        const std::function<Result<std::vector<std::string>>(std::span<const std::byte>)>& parts = {});

 private:
  std::filesystem::path folder_;
};

}  // namespace fettle
