#pragma once
// For this room's tests.

#include <string_view>

#include "base/check.h"
#include "base/testing.h"
#include "ir/func.h"
#include "ir/text.h"

namespace fettle::testing {

inline Func parsed(std::string_view text) {
  auto func = parse_func(text);
  FETTLE_CHECK_MSG(func.has_value(), func ? "" : func.error().to_string());
  return *func;
}

}  // namespace fettle::testing
