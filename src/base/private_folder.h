#pragma once
// Folders that hold code which this process will run: nobody else may write to them.

#include <filesystem>

#include "base/result.h"

namespace fettle {

/// E702: it is no folder, another user's, or others may write to it.
Result<> check_private_folder(const std::filesystem::path& folder);
/// Makes it, and what lies around it, with mode 0700 where they do not exist. E702: likewise, or it cannot be made.
Result<> make_private_folder(const std::filesystem::path& folder);

}  // namespace fettle
