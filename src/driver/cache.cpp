#include "driver/cache.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <optional>

#include "base/large_digest.h"
#include "base/private_folder.h"
#include "base/version.h"
#include "codegen/build.h"
#include "codegen/object_cache.h"
#include "driver/file_digest.h"
#include "frontend/onnx/model_file.h"
#include "graph/op_registry.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kLibrary = ".so", kLock = ".lock", kNote = ".note";
constexpr int64_t kAbandonedSeconds = 24 * 60 * 60;

/// Behind a library: that all of it is there.
struct Seal {
  char magic[8] = {'f', 't', 'l', 'm', 'o', 'd', '0', '1'};
  uint64_t size_bytes = 0;
  uint64_t digest_high = 0, digest_low = 0;
};

int64_t most_bytes() {
  const char* given = std::getenv("FETTLE_CACHE_BYTES");
  char* end = nullptr;
  const int64_t bytes = given ? std::strtoll(given, &end, 10) : 0;
  return given && end != given && *end == 0 && bytes >= 0 ? bytes : kDefaultCacheBytes;
}

/// What the user calls the model, as far as it may stand in a file's name.
std::string shown_name(const ModelSource& source) {
  std::string name = model_name(source).substr(0, 40);
  std::ranges::replace_if(name, [](char c) { return !std::isalnum(static_cast<unsigned char>(c)) && c != '_'; }, '-');
  return name.empty() ? "model" : name;
}

Result<Digest> digest_of_data(FileDigests& digests, Digest digest, const fs::path& folder,
                              const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    FETTLE_TRY(const FileDigests::Known known, digests.of_file(folder / part));
    digest = digest_bytes(digest.hex() + part + "\n" + known.digest.hex());
  }
  return digest;
}

Result<Digest> digest_of_source(const ModelSource& source, FileDigests& digests) {
  if (const auto* file = std::get_if<ModelFile>(&source)) {
    const std::string& path = file->path;
    FETTLE_TRY(const FrontendDef* frontend, frontend_of(path));
    const auto parts = [&](std::span<const std::byte> bytes) -> Result<std::vector<std::string>> {
      if (!frontend->parts) return std::vector<std::string>();
      return frontend->parts(bytes, path);
    };
    FETTLE_TRY(const FileDigests::Known known, digests.of_file(path, parts));
    FETTLE_TRY(const Digest whole, digest_of_data(digests, known.digest, fs::path(path).parent_path(), known.parts));
    return file->function.empty() ? whole : digest_bytes(whole.hex() + file->function);
  }
  if (const auto* imported = std::get_if<ImportedModel>(&source)) return imported->digest;
  const OnnxModel& model = std::get<OnnxModel>(source);
  FETTLE_TRY(Digest digest, digest_of(model));
  const std::vector<std::string> files = external_files(model);
  if (files.empty() || !model.data.folder) return digest;
  return digest_of_data(digests, digest, *model.data.folder, files);
}

/// All that decides what is compiled.
std::string text_of(const OpenOptions& options) {
  const Target target = detect_host(options.threads);
  std::string text = options.target.empty() ? std::string() : fmt::format("target {}\n", options.target);
  text += fmt::format("{}\n{}\n{}\n{} {}\nthreads {} {} streams {}\nbound {} equality {}\n", name_and_version(),
                      program_versions(), program_identity(), target.feature_key(), target.fingerprint().hex(),
                      target.threads, options.threads, options.streams, options.max_error_bound,
                      static_cast<int>(options.workload_equality));
  for (const KernelSourceDef* source : options.kernel_sources)
    text += fmt::format("source {} {}\n", source->name, source->version().value_or(""));
  for (const auto& [name, shape] : options.shapes) {
    text += fmt::format("shape {}:{}", name.size(), name);
    for (const int64_t extent : shape) text += fmt::format(" {}", extent);
    text += "\n";
  }
  const auto number = [](const std::optional<int64_t>& value) { return value ? std::to_string(*value) : "-"; };
  for (const auto& [name, facts] : options.sizes) {
    text += fmt::format("size {}:{} {} {} {}", name.size(), name, number(facts.min), number(facts.max),
                        number(facts.divisor));
    for (const int64_t point : facts.points) text += fmt::format(" {}", point);
    text += "\n";
  }
  for (const auto& [output, input] : options.states)
    text += fmt::format("state {}:{} {}:{}\n", output.size(), output, input.size(), input);
  for (const std::string& pass : options.without) text += fmt::format("without {}\n", pass);
  for (const LimitDef& limit : limit_defs())
    text += fmt::format("limit {} {}\n", limit.name, options.limits.*limit.value);
  return text;
}

/// The content of the records: of the file, and of what is not yet in it.
Result<std::string> text_of_database(const std::string& path, FileDigests& digests) {
  if (path.empty()) return std::string();
  FETTLE_TRY(const FileDigests::Known known, digests.of_file(path));
  std::string text = "records " + known.digest.hex();
  std::error_code error;
  if (const std::string log = path + "-wal"; fs::file_size(log, error) > 0 && !error) {
    FETTLE_TRY(const FileDigests::Known added, digests.of_file(log));
    text += " " + added.digest.hex();
  }
  return text;
}

Result<std::string> key_of(const ModelSource& source, const OpenOptions& options, const fs::path& folder) {
  FileDigests digests(folder);
  FETTLE_TRY(const Digest content, digest_of_source(source, digests));
  FETTLE_TRY(const std::string records, text_of_database(options.database, digests));
  return shown_name(source) + "-" + digest_bytes(content.hex() + text_of(options) + records).hex();
}

/// Whether the library is as it was written.
bool is_whole(const fs::path& path) {
  const auto file = onnx_reader::map_file(path.string());
  Seal seal;
  const auto sealed = static_cast<int64_t>(sizeof seal);
  if (!file || file->size_bytes < sealed) return false;
  const int64_t size = file->size_bytes - sealed;
  std::memcpy(&seal, file->bytes.get() + size, sizeof seal);
  if (std::memcmp(seal.magic, Seal().magic, sizeof seal.magic) != 0 || seal.size_bytes != static_cast<uint64_t>(size))
    return false;
  return digest_large({file->bytes.get(), static_cast<size_t>(size)}) == Digest{seal.digest_high, seal.digest_low};
}

bool seal_library(const fs::path& path) {
  Seal seal;
  {
    const auto file = onnx_reader::map_file(path.string());
    if (!file) return false;
    const auto size = static_cast<size_t>(file->size_bytes);
    const Digest digest = digest_large({file->bytes.get(), size});
    seal.size_bytes = size;
    seal.digest_high = digest.high;
    seal.digest_low = digest.low;
  }
  std::ofstream out(path, std::ios::binary | std::ios::app);
  out.write(reinterpret_cast<const char*>(&seal), sizeof seal);
  out.close();
  return !out.fail() && ::chmod(path.c_str(), 0600) == 0;
}

/// Keeps other processes from a model while this one compiles it.
class ModelLock {
 public:
  explicit ModelLock(fs::path path) : path_(std::move(path)) {
    while (true) {
      fd_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
      if (fd_ < 0) return;
      if (::flock(fd_, LOCK_EX) == 0) {
        // Whoever had it may have removed the file meanwhile.
        struct stat ours{}, named{};
        if (::fstat(fd_, &ours) == 0 && ::stat(path_.c_str(), &named) == 0 && ours.st_ino == named.st_ino) return;
      } else if (errno != EINTR) {
        break;
      }
      ::close(fd_);
    }
    ::close(fd_);
    fd_ = -1;
  }
  ModelLock(const ModelLock&) = delete;
  ModelLock& operator=(const ModelLock&) = delete;
  ~ModelLock() {
    if (fd_ < 0) return;
    ::unlink(path_.c_str());
    ::close(fd_);
  }

 private:
  fs::path path_;
  int fd_ = -1;
};

/// The model at `file`, or that this machine runs none of its targets.
std::optional<Result<Model>> load_kept(const fs::path& file, const FettleOptions& run) {
  std::error_code error;
  if (!fs::exists(file, error)) return std::nullopt;
  if (is_whole(file)) {
    auto model = Model::load(file, run);
    if (model) ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);  // it was used now
    if (model || model.error().code == ErrorCode::E707) return model;
  }
  fs::remove(file, error);
  return std::nullopt;
}

/// Puts the model at `file`; false where it could not.
bool keep(const CompiledModel& compiled, const fs::path& file) {
  const fs::path made = file.parent_path() / fmt::format(".{}-{}", ::getpid(), file.filename().string());
  fs::path header = made;
  header.replace_extension(".h");
  std::error_code error;
  const bool is_kept = compiled.write(made) && seal_library(made) && (fs::rename(made, file, error), !error);
  fs::remove(header, error);
  if (!is_kept) fs::remove(made, error);
  return is_kept;
}

/// Removes what was not used for longest, and what killed processes left.
void make_room(const fs::path& folder) {
  int64_t total = 0;
  std::vector<CachedModel> models = cached_models(folder);
  for (const CachedModel& model : models) total += model.bytes;
  std::error_code error;
  for (; total > most_bytes() && !models.empty(); models.pop_back()) {
    fs::remove(models.back().file, error);
    total -= models.back().bytes;
  }
  const std::time_t now = std::time(nullptr);
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    struct stat info{};
    const bool is_temporary = entry.path().filename().string().starts_with('.');
    const bool is_note = entry.path().extension() == kNote;
    if ((is_temporary || is_note) && ::stat(entry.path().c_str(), &info) == 0 &&
        now - info.st_mtime > kAbandonedSeconds * (is_note ? 90 : 1))
      fs::remove(entry.path(), error);
  }
}

}  // namespace

fs::path model_cache_folder() {
  if (const char* given = std::getenv("FETTLE_CACHE"); given && std::string_view(given) == "off") return {};
  const fs::path folder = default_cache_folder();
  return folder.empty() ? folder : folder / "models";
}

Result<> check_cache_folder(const fs::path& folder) {
  for (const fs::path& made : {folder.parent_path(), folder}) FETTLE_TRY_VOID(make_private_folder(made));
  return {};
}

Result<Model> open_cached_model(const ModelSource& source, const OpenOptions& options) {
  const auto* from = std::get_if<ModelFile>(&source);
  const fs::path folder = model_cache_folder();
  if (folder.empty() || (from && is_library_path(from->path)) || has_registered_ops())
    return open_model(source, options);
  if (auto usable = check_cache_folder(folder); !usable) {
    if (options.warn) options.warn("compiled models are not kept: " + usable.error().to_string());
    return open_model(source, options);
  }
  const auto key = key_of(source, options, folder);
  if (!key) return open_model(source, options);  // whose error says why
  const fs::path file = folder / (*key + std::string(kLibrary));
  const FettleOptions run = run_options(options);
  if (auto kept = load_kept(file, run)) return std::move(*kept);
  const ModelLock lock(folder / (*key + std::string(kLock)));
  if (auto kept = load_kept(file, run)) return std::move(*kept);
  FETTLE_TRY(const CompiledModel compiled, compile_source(source, options));
  // A file that changed meanwhile would be kept under what it was before.
  const auto after = key_of(source, options, folder);
  if (after && *after == *key && keep(compiled, file)) {
    auto kept = Model::load(file, run);
    make_room(folder);
    if (kept) return kept;
  }
  return compiled.instantiate(run);
}

std::vector<CachedModel> cached_models(const fs::path& folder) {
  std::vector<CachedModel> models;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    struct stat info{};
    if (entry.path().extension() != kLibrary || entry.path().filename().string().starts_with('.')) continue;
    if (::lstat(entry.path().c_str(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    models.push_back({entry.path(), info.st_size, info.st_mtim.tv_sec});
  }
  std::ranges::sort(models, [](const CachedModel& a, const CachedModel& b) {
    return std::pair(b.used_s, a.file) < std::pair(a.used_s, b.file);
  });
  return models;
}

int64_t clear_model_cache(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string extension = entry.path().extension().string();
    if (extension != kLibrary && extension != kNote) continue;
    std::error_code gone;
    const auto size = static_cast<int64_t>(entry.file_size(gone));
    if (!gone && fs::remove(entry.path(), gone)) bytes += size;
  }
  return bytes;
}

}  // namespace fettle
