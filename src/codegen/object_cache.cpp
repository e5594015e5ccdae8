#include "codegen/object_cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <span>
#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "base/output_file.h"
#include "base/private_folder.h"

namespace fettle {
namespace {

constexpr char kMagic[8] = {'f', 't', 'l', 'o', 'b', 'j', '0', '1'};
constexpr int64_t kMaxObjectBytes = int64_t{64} << 20;
constexpr std::uintmax_t kMaxFolderBytes = std::uintmax_t{64} << 20;

struct Header {
  char magic[8];
  uint64_t size_bytes;
  uint64_t digest_high, digest_low;
};

/// Whether a program or library that is loaded is the one that this code belongs to.
bool holds_this_code(const dl_phdr_info& info) {
  const auto here = reinterpret_cast<uintptr_t>(&holds_this_code) - info.dlpi_addr;
  return std::any_of(info.dlpi_phdr, info.dlpi_phdr + info.dlpi_phnum, [&](const ElfW(Phdr) & part) {
    return part.p_type == PT_LOAD && here >= part.p_vaddr && here - part.p_vaddr < part.p_memsz;
  });
}

/// The build ID that the linker has noted in it, in hexadecimal digits; empty: none.
std::string build_id(const dl_phdr_info& info) {
  const auto padded = [](size_t bytes) { return (bytes + 3) & ~size_t{3}; };
  for (const ElfW(Phdr) & part : std::span(info.dlpi_phdr, info.dlpi_phnum)) {
    if (part.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(info.dlpi_addr + part.p_vaddr);
    for (const char* end = at + part.p_memsz; at + sizeof(ElfW(Nhdr)) <= end;) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* id = name + padded(note.n_namesz);
      if (note.n_type == NT_GNU_BUILD_ID && std::string_view(name, note.n_namesz) == std::string_view("GNU", 4)) {
        const std::span bytes(reinterpret_cast<const uint8_t*>(id), note.n_descsz);
        return fmt::format("{:02x}", fmt::join(bytes, ""));
      }
      at = id + padded(note.n_descsz);
    }
  }
  return {};
}

Digest digest_of(const std::vector<uint8_t>& bytes) {
  return digest_bytes({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

/// FOLDER/12/1234….o: nobody else can have put it there.
bool is_private(const std::filesystem::path& path) {
  return check_private_folder(path.parent_path()) && check_private_folder(path.parent_path().parent_path());
}

ObjectBytes read_object(const std::filesystem::path& path) {
  if (!is_private(path)) return nullptr;
  std::ifstream file(path, std::ios::binary);
  Header header;
  if (!file.read(reinterpret_cast<char*>(&header), sizeof header)) return nullptr;
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0 || header.size_bytes > kMaxObjectBytes) return nullptr;
  std::vector<uint8_t> bytes(header.size_bytes);
  if (!file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()))) return nullptr;
  if (digest_of(bytes) != Digest{header.digest_high, header.digest_low}) return nullptr;
  return std::make_shared<const std::vector<uint8_t>>(std::move(bytes));
}

// Where there is no place for it, it is not kept.
void write_object(const std::filesystem::path& path, const std::vector<uint8_t>& bytes) {
  const std::filesystem::path folder = path.parent_path();
  if (!make_private_folder(folder.parent_path()) || !make_private_folder(folder)) return;
  const Digest digest = digest_of(bytes);
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.size_bytes = bytes.size();
  header.digest_high = digest.high;
  header.digest_low = digest.low;
  auto file = OutputFile::create(path, {.regular_only = true});
  if (file && file->write({reinterpret_cast<const char*>(&header), sizeof header}) &&
      file->write({reinterpret_cast<const char*>(bytes.data()), bytes.size()}))
    (void)file->commit();
}

// Brings the files under `folder` down to half of kMaxFolderBytes, the oldest first, should they take more than that:
// other builds of the program leave theirs behind.
void prune(const std::filesystem::path& folder) {
  struct File {
    std::filesystem::file_time_type written;
    std::filesystem::path path;
    std::uintmax_t size_bytes;
  };
  std::vector<File> files;
  std::uintmax_t total = 0;
  std::error_code error;
  for (std::filesystem::recursive_directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code gone;
    if (!it->is_regular_file(gone)) continue;
    const File file{it->last_write_time(gone), it->path(), it->file_size(gone)};
    if (gone) continue;
    total += file.size_bytes;
    files.push_back(file);
  }
  if (total <= kMaxFolderBytes) return;
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.written < b.written; });
  for (const File& file : files) {
    if (total <= kMaxFolderBytes / 2) return;
    std::error_code gone;
    std::filesystem::remove(file.path, gone);
    total -= file.size_bytes;
  }
}

}  // namespace

std::filesystem::path ObjectCache::path_of(const std::string& key) const {
  const std::string name = digest_bytes(key).hex();
  return folder_ / name.substr(0, 2) / (name + ".o");
}

Result<ObjectBytes> ObjectCache::get(const std::string& key, Make make, IfBusy if_busy) {
  std::unique_lock lock(mutex_);
  while (true) {
    const auto [at, is_new] = objects_.try_emplace(key);
    if (is_new) break;
    if (at->second) {
      ++hits_;
      return at->second;
    }
    if (if_busy == IfBusy::kSkip) return ObjectBytes();
    made_.wait(lock);
  }
  lock.unlock();
  auto object = read_or_make(key, make);
  lock.lock();
  if (object)
    objects_[key] = *object;
  else
    objects_.erase(key);
  made_.notify_all();
  return object;
}

Result<ObjectBytes> ObjectCache::read_or_make(const std::string& key, Make make) {
  if (!folder_.empty()) {
    if (ObjectBytes object = read_object(path_of(key))) {
      ++hits_;
      return object;
    }
  }
  ++misses_;
  FETTLE_TRY(std::vector<uint8_t> made, make());
  auto object = std::make_shared<const std::vector<uint8_t>>(std::move(made));
  if (!folder_.empty()) {
    std::call_once(pruned_, prune, folder_);
    write_object(path_of(key), *object);
  }
  return object;
}

std::string program_identity() {
  std::string id;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        return holds_this_code(*info) ? (*static_cast<std::string*>(found) = build_id(*info), 1) : 0;
      },
      &id);
  FETTLE_CHECK(!id.empty());  // cmake/settings.cmake asks the linker for it
  return id;
}

std::filesystem::path default_cache_folder() {
  if (const char* given = std::getenv("FETTLE_CACHE"); given && *given && std::strcmp(given, "off") != 0) return given;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache)
    return std::filesystem::path(cache) / "fettle";
  if (const char* home = std::getenv("HOME"); home && *home) return std::filesystem::path(home) / ".cache" / "fettle";
  return {};
}

}  // namespace fettle
