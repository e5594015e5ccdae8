#include "base/private_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace fettle {

Result<> check_private_folder(const std::filesystem::path& folder) {
  struct stat info{};
  if (::lstat(folder.c_str(), &info) != 0) return fail(ErrorCode::E702, std::strerror(errno), folder.string());
  if (!S_ISDIR(info.st_mode)) return fail(ErrorCode::E702, "it is no folder", folder.string());
  if (info.st_uid != ::geteuid()) return fail(ErrorCode::E702, "the cache is another user's", folder.string());
  if ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0)
    return fail(ErrorCode::E702, "others may write to the cache: `chmod go-w` keeps them out", folder.string());
  return {};
}

Result<> make_private_folder(const std::filesystem::path& folder) {
  const std::filesystem::path around = folder.parent_path();
  struct stat info{};
  if (!around.empty() && around != folder && ::stat(around.c_str(), &info) != 0) (void)make_private_folder(around);
  if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST)
    return fail(ErrorCode::E702, std::strerror(errno), folder.string());
  return check_private_folder(folder);
}

}  // namespace fettle
