#include "base/checks.h"

#include <algorithm>

namespace fettle::detail {

bool is_enabled(std::string_view name) {
  return std::none_of(disabled_checks->begin(), disabled_checks->end(),
                      [&](const std::string& off) { return off == name; });
}

}  // namespace fettle::detail
