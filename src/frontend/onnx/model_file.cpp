#include "frontend/onnx/model_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

namespace fettle::onnx_reader {

Result<MappedFile> map_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return fail(ErrorCode::E601, fmt::format("{}: {}", path, std::strerror(errno)));
  struct stat info = {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    ::close(fd);
    return fail(ErrorCode::E601, path + " is not a regular file");
  }
  if (info.st_size == 0) {
    ::close(fd);
    return fail(ErrorCode::E602, path + " is empty");
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

Result<MappedFile> ExternalFiles::slice(const std::string& location, int64_t offset, int64_t length) {
  namespace fs = std::filesystem;
  auto it = files_.find(location);
  if (it == files_.end()) {
    const fs::path relative(location);
    if (location.empty() || relative.is_absolute())
      return fail(ErrorCode::E607, fmt::format("the location \"{}\" is not relative to the model's folder", location));
    std::error_code error;
    const fs::path folder = fs::canonical(folder_.empty() ? "." : folder_, error);
    if (error) return fail(ErrorCode::E607, fmt::format("{}: {}", folder_, error.message()));
    const fs::path resolved = fs::canonical(folder / relative, error);
    if (error) return fail(ErrorCode::E607, fmt::format("{}: {}", location, error.message()));
    // The part of the resolved path that goes beyond the folder must exist and never climb.
    const fs::path below = resolved.lexically_relative(folder);
    if (below.empty() || *below.begin() == "..")
      return fail(ErrorCode::E607, fmt::format("\"{}\" lies outside of the model's folder", location));
    auto mapped = map_file(resolved.string());
    if (!mapped) return fail(ErrorCode::E607, mapped.error().message);
    it = files_.emplace(location, std::move(*mapped)).first;
  }
  const MappedFile& file = it->second;
  if (offset < 0 || offset > file.size_bytes) length = -2;
  if (length == -1) length = file.size_bytes - offset;
  if (length < 0 || length > file.size_bytes - offset)
    return fail(ErrorCode::E607, fmt::format("\"{}\" has {} bytes, too few", location, file.size_bytes));
  return MappedFile{std::shared_ptr<const std::byte>(file.bytes, file.bytes.get() + offset), length};
}

}  // namespace fettle::onnx_reader
