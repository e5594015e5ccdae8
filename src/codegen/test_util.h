#pragma once
// For this room's tests.

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"
#include "ir/func.h"
#include "ir/text.h"

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

inline Func parsed(std::string_view text) {
  auto func = parse_func(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

}  // namespace fettle::testing
