#pragma once
// Files that a user names to be written: whole, or as they were.

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle {

/// A regular file, or one that is to be made, is written under a temporary name in the same folder and renamed by
/// commit(); without commit() nothing is left behind. It keeps the mode of the file that it replaces. Of a symbolic
/// link the target is replaced. A device or a pipe is written to as it is.
///
///   FETTLE_TRY(OutputFile file, OutputFile::create(path));
///   FETTLE_TRY_VOID(file.write(text));
///   FETTLE_TRY_VOID(file.commit());
class OutputFile {
 public:
  struct Options {
    mode_t mode = 0666;         // of a new file, less the umask
    bool regular_only = false;  // refuses devices and pipes
  };
  /// Errors: E702 a folder, a socket, a pipe that nobody reads, a folder that is missing or cannot be written to, a
  /// file that is read-only.
  static Result<OutputFile> create(const std::filesystem::path& path, Options options);
  static Result<OutputFile> create(const std::filesystem::path& path) { return create(path, Options()); }

  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  ~OutputFile();

  /// E702: for example, the disk is full.
  Result<> write(std::string_view bytes);
  /// Closes it: all has arrived, but nothing stands at `path` yet. E702
  Result<> close();
  /// Closes it, if that was not done, and puts it in its place. E702
  Result<> commit();

  /// As the user named it.
  const std::filesystem::path& path() const { return path_; }
  /// What others may write to instead, before close(): empty for a device or a pipe.
  const std::filesystem::path& temporary() const { return temporary_; }

 private:
  OutputFile() = default;
  tl::unexpected<Diagnostic> failed(int error) const;
  Result<> write_now(std::string_view bytes);
  Result<> flush();
  Result<> open_special(mode_t type);
  Result<> open_temporary(mode_t mode);

  std::filesystem::path path_;
  std::filesystem::path target_;     // what is replaced: links followed
  std::filesystem::path temporary_;  // empty: written directly, or committed
  int registered_ = -1;              // where remove_temporary_files finds it
  std::optional<mode_t> mode_;       // of the file that is replaced
  std::string buffer_;
  int fd_ = -1;
};

/// Removes what was not committed, of all output files: for a handler of a signal that then ends the program.
void remove_temporary_files() noexcept;

/// All of a file at once. E702, as OutputFile.
Result<> write_file(const std::filesystem::path& path, std::string_view bytes);

}  // namespace fettle
