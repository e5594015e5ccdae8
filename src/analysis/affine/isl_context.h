#pragma once
// Sets and relations of integer points, by isl. Headers with isl's types are this one, nest.h beside it,
// schedule/edit/scanning.h, and polyhedral/affine_row.h.

#include <isl/cpp.h>

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include "base/result.h"

namespace fettle {

/// This thread's context. What is made with it stays on the thread.
isl::ctx isl_context();

/// From its beginning isl may take this many operations of its own, so that no question takes for ever.
inline constexpr int64_t kIslCheckOperations = 4'000'000;
inline constexpr int64_t kIslScheduleOperations = 40'000'000;

namespace detail {
/// Begins to count; 0 ends it.
void bound_isl(int64_t operations);
tl::unexpected<Diagnostic> isl_refusal(const isl::exception& e, int64_t operations);
}  // namespace detail

/// fn() within so many operations of isl. What isl refuses becomes E209: too hard, or not what isl can say.
template <class Fn>
auto within_isl(int64_t operations, Fn fn) -> std::invoke_result_t<Fn> {
  detail::bound_isl(operations);
  try {
    auto result = fn();
    detail::bound_isl(0);
    return result;
  } catch (const isl::exception& e) {
    detail::bound_isl(0);
    return detail::isl_refusal(e, operations);
  }
}

}  // namespace fettle
