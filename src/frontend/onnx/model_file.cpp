#include "frontend/onnx/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/openat2.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

namespace fettle::onnx_reader {

namespace {

// Takes the descriptor.
Result<MappedFile> map_descriptor(int fd, const std::string& path,
                                  const Limits& limits = {.external_bytes = INT64_MAX}) {
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return fail(ErrorCode::E601, path + " is not a regular file");
  }
  Result<> fits = check_limit(limits, &Limits::external_bytes, info.st_size, path);
  if (fits && info.st_size == 0) fits = fail(ErrorCode::E602, path + " is empty");
  if (!fits) {
    ::close(fd);
    return fail(std::move(fits.error()));
  }
  const auto size = static_cast<size_t>(info.st_size);
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  const int error = errno;
  ::close(fd);
  if (memory == MAP_FAILED) return fail(ErrorCode::E601, fmt::format("{}: {}", path, std::strerror(error)));
  return MappedFile{
      std::shared_ptr<const std::byte>(static_cast<const std::byte*>(memory),
                                       [size](const std::byte* p) { ::munmap(const_cast<std::byte*>(p), size); }),
      info.st_size};
}

// Nothing waits for a pipe's writer, or makes a terminal ours.
constexpr int kReadFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

// -1 and errno where it fails.
int open_by_kernel(int folder, const std::string& location) {
  struct open_how how = {};
  how.flags = kReadFlags;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  constexpr int kTries = 16;  // somebody renames folders meanwhile
  long fd = -1;
  for (int i = 0; i < kTries; ++i) {
    fd = ::syscall(SYS_openat2, folder, location.c_str(), &how, sizeof how);
    if (fd >= 0 || errno != EAGAIN) break;
  }
  return static_cast<int>(fd);
}

int open_by_component(int folder, const std::vector<std::string>& parts) {
  int at = folder;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int flags = i + 1 < parts.size() ? O_PATH | O_DIRECTORY | O_CLOEXEC : kReadFlags;
    const int next = ::openat(at, parts[i].c_str(), flags | O_NOFOLLOW);
    const int error = errno;
    if (at != folder) ::close(at);
    errno = error;
    if (next < 0) return -1;
    at = next;
  }
  return at;
}

}  // namespace

Result<MappedFile> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), kReadFlags);
  if (fd < 0) return fail(ErrorCode::E601, fmt::format("{}: {}", path, std::strerror(errno)));
  return map_descriptor(fd, path);
}

Result<int> open_beneath(int folder, const std::string& location, Beneath how) {
  std::vector<std::string> parts;
  for (const auto& part : std::filesystem::path(location))
    if (!part.empty() && part != ".") parts.push_back(part.string());
  const bool climbs = std::ranges::find(parts, "..") != parts.end();
  if (parts.empty() || location.front() == '/' || climbs || location.find('\0') != std::string::npos)
    return fail(ErrorCode::E607, fmt::format("the location \"{}\" is not relative to the model's folder", location));
  int fd = -1;
  bool done = false;
  if (how == Beneath::kKernel) {
    fd = open_by_kernel(folder, location);
    done = fd >= 0 || (errno != ENOSYS && errno != EPERM && errno != EINVAL);
  }
  if (!done) fd = open_by_component(folder, parts);
  if (fd >= 0) return fd;
  if (errno == EXDEV || errno == ELOOP)
    return fail(ErrorCode::E607, fmt::format("\"{}\" leads out of the model's folder", location));
  return fail(ErrorCode::E607, fmt::format("{}: {}", location, std::strerror(errno)));
}

ExternalFiles::~ExternalFiles() {
  if (folder_handle_ >= 0) ::close(folder_handle_);
}

Result<MappedFile> ExternalFiles::map(const std::string& location) {
  if (!folder_)
    return fail(ErrorCode::E607,
                fmt::format("\"{}\" is a file, and the model has no folder to look for it in", location));
  if (folder_handle_ < 0) {
    const std::string folder = folder_->empty() ? "." : *folder_;
    folder_handle_ = ::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (folder_handle_ < 0) return fail(ErrorCode::E607, fmt::format("{}: {}", folder, std::strerror(errno)));
  }
  FETTLE_TRY(const int fd, open_beneath(folder_handle_, location));
  auto mapped = map_descriptor(fd, location, limits_);
  if (!mapped && mapped.error().code != ErrorCode::E608) return fail(ErrorCode::E607, mapped.error().message);
  return mapped;
}

Result<MappedFile> ExternalFiles::slice(const std::string& location, int64_t offset, int64_t length) {
  auto it = files_.find(location);
  if (it == files_.end()) {
    FETTLE_TRY(MappedFile mapped, map(location));
    it = files_.emplace(location, std::move(mapped)).first;
  }
  const MappedFile& file = it->second;
  if (offset < 0 || offset > file.size_bytes) length = -2;
  if (length == -1) length = file.size_bytes - offset;
  if (length < 0 || length > file.size_bytes - offset)
    return fail(ErrorCode::E607, fmt::format("\"{}\" has {} bytes, too few", location, file.size_bytes));
  return MappedFile{std::shared_ptr<const std::byte>(file.bytes, file.bytes.get() + offset), length};
}

}  // namespace fettle::onnx_reader
