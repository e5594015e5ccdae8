#include "base/check.h"

#include <cstdio>
#include <cstdlib>
#include <string>

namespace fettle::detail {

void check_failed(const char* condition, const char* file, int line, std::string_view note) {
  std::fprintf(stderr, "%s:%d: internal error: %s%s%s\n", file, line, condition, note.empty() ? "" : ": ",
               std::string(note).c_str());
  std::abort();
}

}  // namespace fettle::detail
