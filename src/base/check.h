#pragma once
// Invariants of the program itself. A failed check is a bug: it prints what and where, and aborts.
// For anything that input can cause, return a Diagnostic (result.h) instead.

#include <string_view>

namespace fettle::detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, std::string_view note);
}

#define FETTLE_CHECK(condition)                        \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::fettle::detail::check_failed(#condition, __FILE__, __LINE__, {}))

#define FETTLE_CHECK_MSG(condition, note)              \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::fettle::detail::check_failed(#condition, __FILE__, __LINE__, (note)))

#define FETTLE_UNREACHABLE() ::fettle::detail::check_failed("unreachable", __FILE__, __LINE__, {})
