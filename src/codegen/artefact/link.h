#pragma once
// Links objects, given as bytes, into a shared library that needs libc alone.

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/output_file.h"

namespace fettle {

/// An input: relocatable objects, as bytes or as a function that writes one to a file descriptor (where it is large).
struct LinkRequest {
  std::vector<std::string_view> objects;
  std::vector<std::function<Result<>(int fd)>> writers;
  /// Exported names, and the symbol each stands for; equal where a symbol is exported under its own name.
  std::vector<std::pair<std::string, std::string>> exports;
};

/// Links with lld, in this process and without files but the output, a regular file that is not closed yet. What
/// `exports` does not reach is left out; other symbols are local. Depends on libc.so.6 and nothing else; libc's
/// development files are not needed. One link at a time; further callers wait. Errors: E303 an undefined or doubly
/// defined symbol, or no object · E702 `out` cannot be written.
Result<> link_shared_library(const LinkRequest& request, const OutputFile& out);

}  // namespace fettle
