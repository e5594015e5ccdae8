#include "runtime/library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>

#include "rt/targets.h"

namespace fettle {
namespace {

namespace fs = std::filesystem;

/// Reads the first bytes, for a better sentence than the dynamic loader's. E701, E706.
Result<> check_file(const fs::path& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return fail(ErrorCode::E701, "it is a folder", path.string());
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return fail(ErrorCode::E701, std::strerror(errno), path.string());
  char start[4] = {};
  const size_t got = std::fread(start, 1, sizeof start, file);
  std::fclose(file);
  if (got != sizeof start || std::memcmp(start, "\177ELF", 4) != 0)
    return fail(ErrorCode::E706, "the file is not a shared library", path.string());
  return {};
}

}  // namespace

Result<std::shared_ptr<const FettleModelInfo>> load_library(const fs::path& path, const std::string& target) {
  FETTLE_TRY_VOID(check_file(path));
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);  // a bare name would be looked up in the system's folders
  void* handle = ::dlopen((error ? path : absolute).c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return fail(ErrorCode::E706, ::dlerror(), path.string());
  const std::shared_ptr<void> library(handle, [](void* h) { ::dlclose(h); });
  const auto* info = static_cast<const FettleModelInfo*>(::dlsym(handle, "fettle_artefact"));
  if (info == nullptr || info->magic != FETTLE_MAGIC)
    return fail(ErrorCode::E706, "the library holds no compiled model", path.string());
  if (info->abi_version != FETTLE_ABI_VERSION) {
    return fail(ErrorCode::E706,
                fmt::format("its interface has version {}, this Fettle's is {}", info->abi_version, FETTLE_ABI_VERSION),
                path.string());
  }
  // What came at its end later is not asked for where n_structures, which was zero before, is zero.
  if (info->struct_bytes < offsetof(FettleModelInfo, structures))
    return fail(ErrorCode::E706, "its description is shorter than that of any Fettle", path.string());
  char why[256];
  const FettleModelInfo* picked = fettle_pick_target(info, target.c_str(), why, sizeof why);
  if (picked == nullptr) return fail(ErrorCode::E707, why, path.string());
  return std::shared_ptr<const FettleModelInfo>(library, picked);
}

}  // namespace fettle
