#include "base/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr size_t kBufferBytes = 1 << 16;
/// Symbolic links in a row, as the kernel counts them.
constexpr int kMaxLinks = 40;
constexpr int kMaxNames = 100;
/// The longest name of a file is 255 bytes, with what is added to make it a temporary one.
constexpr size_t kMaxNameBytes = 200;

/// Names of temporary files, for who handles a signal. Whoever takes one out owns it.
constexpr int kMaxRegistered = 64;
std::atomic<char*> registered[kMaxRegistered];

/// The place, or -1 where all are taken.
int register_temporary(const fs::path& path) {
  char* name = ::strdup(path.c_str());
  for (int i = 0; name && i < kMaxRegistered; ++i)
    if (char* none = nullptr; registered[i].compare_exchange_strong(none, name)) return i;
  std::free(name);
  return -1;
}

void unregister_temporary(int place) {
  if (place >= 0) std::free(registered[place].exchange(nullptr));
}

/// Where the links at `path` lead; there need not be a file. errno says why where the result is empty.
fs::path follow_links(fs::path path) {
  for (int i = 0; i < kMaxLinks; ++i) {
    std::error_code error;
    if (!fs::is_symlink(fs::symlink_status(path, error))) return path;
    const fs::path next = fs::read_symlink(path, error);
    if (error) {
      errno = error.value();
      return {};
    }
    path = path.parent_path() / next;  // an absolute link replaces the whole
  }
  errno = ELOOP;
  return {};
}

}  // namespace

tl::unexpected<Diagnostic> OutputFile::failed(int error) const {
  return fail(ErrorCode::E702, std::strerror(error), path_.string());
}

Result<OutputFile> OutputFile::create(const fs::path& path, Options options) {
  OutputFile file;
  file.path_ = path;
  if (path.empty()) return fail(ErrorCode::E702, "the name of the file is empty");
  struct stat info{};
  const bool exists = ::stat(path.c_str(), &info) == 0;
  if (!exists && errno != ENOENT) return file.failed(errno);
  if (exists && S_ISDIR(info.st_mode)) return file.failed(EISDIR);
  if (exists && !S_ISREG(info.st_mode)) {
    if (options.regular_only)
      return fail(ErrorCode::E702, "it is a device or a pipe, where a file is needed", path.string());
    FETTLE_TRY_VOID(file.open_special(info.st_mode & S_IFMT));
    return file;
  }
  if (exists && ::access(path.c_str(), W_OK) != 0) return file.failed(errno);
  file.target_ = follow_links(path);
  if (file.target_.empty()) return file.failed(errno);
  if (!file.target_.has_filename()) return file.failed(EISDIR);
  if (exists) file.mode_ = info.st_mode & 07777;
  FETTLE_TRY_VOID(file.open_temporary(exists ? 0600 : options.mode));
  return file;
}

// Without waiting for a reader.
Result<> OutputFile::open_special(mode_t type) {
  if (S_ISSOCK(type)) return fail(ErrorCode::E702, "it is a socket", path_.string());
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
  if (fd_ < 0 && errno == ENXIO && S_ISFIFO(type))
    return fail(ErrorCode::E702, "nobody reads from this pipe", path_.string());
  if (fd_ < 0) return failed(errno);
  const int flags = ::fcntl(fd_, F_GETFL);
  if (flags < 0 || ::fcntl(fd_, F_SETFL, flags & ~O_NONBLOCK) != 0) return failed(errno);
  return {};
}

Result<> OutputFile::open_temporary(mode_t mode) {
  static std::atomic<unsigned> count{0};
  const std::string name = target_.filename().string().substr(0, kMaxNameBytes);
  for (int i = 0; i < kMaxNames; ++i) {
    fs::path candidate = target_;
    candidate.replace_filename(fmt::format("{}.{}-{}.tmp", name, ::getpid(), count++));
    fd_ = ::open(candidate.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd_ >= 0) {
      registered_ = register_temporary(candidate);
      temporary_ = std::move(candidate);
      return {};
    }
    if (errno != EEXIST) break;
  }
  return failed(errno);
}

OutputFile::OutputFile(OutputFile&& other) noexcept
    : path_(std::move(other.path_)),
      target_(std::move(other.target_)),
      temporary_(std::exchange(other.temporary_, {})),
      registered_(std::exchange(other.registered_, -1)),
      mode_(other.mode_),
      buffer_(std::move(other.buffer_)),
      fd_(std::exchange(other.fd_, -1)) {}

OutputFile::~OutputFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  unregister_temporary(registered_);
}

void remove_temporary_files() noexcept {
  for (std::atomic<char*>& place : registered)
    if (const char* name = place.exchange(nullptr)) ::unlink(name);
}

Result<> OutputFile::write(std::string_view bytes) {
  if (buffer_.size() + bytes.size() <= kBufferBytes) {
    buffer_.append(bytes);
    return {};
  }
  FETTLE_TRY_VOID(flush());
  return write_now(bytes);
}

Result<> OutputFile::write_now(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed(errno);
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return {};
}

Result<> OutputFile::flush() {
  const std::string bytes = std::exchange(buffer_, {});
  return write_now(bytes);
}

Result<> OutputFile::close() {
  FETTLE_TRY_VOID(flush());
  if (fd_ >= 0 && ::close(std::exchange(fd_, -1)) != 0 && errno != EINTR) return failed(errno);
  return {};
}

Result<> OutputFile::commit() {
  FETTLE_TRY_VOID(close());
  if (temporary_.empty()) return {};
  if (mode_ && ::chmod(temporary_.c_str(), *mode_) != 0) return failed(errno);
  if (::rename(temporary_.c_str(), target_.c_str()) != 0) return failed(errno);
  temporary_.clear();
  unregister_temporary(std::exchange(registered_, -1));
  return {};
}

Result<> write_file(const fs::path& path, std::string_view bytes) {
  FETTLE_TRY(OutputFile file, OutputFile::create(path));
  FETTLE_TRY_VOID(file.write(bytes));
  return file.commit();
}

}  // namespace fettle
