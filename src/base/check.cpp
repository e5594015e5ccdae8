#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace fettle::detail {

void check_failed(const char* condition, const char* file, int line, std::string_view note) {
  std::fprintf(stderr, "%s:%d: internal error: %s%s%.*s\n", file, line, condition, note.empty() ? "" : ": ",
               static_cast<int>(note.size()), note.data());
  std::abort();
}

}  // namespace fettle::detail
