#pragma once
// For tests of all rooms.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace fettle::testing {

/// A folder that goes with its owner.
struct TempFolder {
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "fettle_test_XXXXXX").string();
    FETTLE_CHECK(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace fettle::testing
