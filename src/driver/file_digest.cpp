#include "driver/file_digest.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>

#include "base/large_digest.h"
#include "base/output_file.h"
#include "frontend/onnx/model_file.h"

namespace fettle {
namespace {

// Times of files are as fine as the system's clock ticks; two changes within one tick leave the same stamp.
constexpr int64_t kSettledNs = 2'000'000'000;

int64_t to_ns(const timespec& time) { return time.tv_sec * 1'000'000'000 + time.tv_nsec; }

Digest parse_digest(std::string_view text) {
  Digest digest;
  if (text.size() != 32) return digest;
  std::from_chars(text.data(), text.data() + 16, digest.high, 16);
  std::from_chars(text.data() + 16, text.data() + 32, digest.low, 16);
  return digest;
}

}  // namespace

Result<FileStamp> stamp_of(const std::filesystem::path& path) {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return fail(ErrorCode::E601, errno != 0 ? std::strerror(errno) : "it is no regular file", path.string());
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  const int64_t changed = std::max(to_ns(info.st_mtim), to_ns(info.st_ctim));
  return FileStamp{
      fmt::format("{} {} {} {} {}", info.st_dev, info.st_ino, info.st_size, to_ns(info.st_mtim), to_ns(info.st_ctim)),
      to_ns(now) - changed > kSettledNs};
}

// A note: the stamp, the digest, and the parts, a line each.
Result<FileDigests::Known> FileDigests::of_file(
    const std::filesystem::path& path,
    const std::function<Result<std::vector<std::string>>(std::span<const std::byte>)>& parts) {
  FETTLE_TRY(const FileStamp stamp, stamp_of(path));
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  const std::filesystem::path note = folder_ / (digest_bytes(absolute.string()).hex() + ".note");
  if (std::ifstream file(note); file) {
    std::string noted, digest, part;
    std::getline(file, noted);
    std::getline(file, digest);
    Known known{parse_digest(digest), {}};
    while (std::getline(file, part)) known.parts.push_back(part);
    // The last line tells that none is missing.
    if (noted == stamp.text && known.digest != Digest{} && !known.parts.empty() && known.parts.back() == "end") {
      known.parts.pop_back();
      return known;
    }
  }
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path.string()));
  const std::span<const std::byte> bytes(file.bytes.get(), static_cast<size_t>(file.size_bytes));
  Known known{digest_large(bytes), {}};
  if (parts) {
    FETTLE_TRY(known.parts, parts(bytes));
  }
  const bool has_lines =
      std::ranges::any_of(known.parts, [](const std::string& part) { return part.find('\n') != part.npos; });
  if (!stamp.is_settled || has_lines) return known;
  std::string text = stamp.text + "\n" + known.digest.hex() + "\n";
  for (const std::string& part : known.parts) text += part + "\n";
  // Where a note cannot be kept, the file is read again.
  if (auto out = OutputFile::create(note, {.mode = 0600, .regular_only = true}); out && out->write(text + "end\n"))
    (void)out->commit();
  return known;
}

}  // namespace fettle
