#pragma once
// Result<T>: a value, or the Diagnostic that says why there is none.

#include <tl/expected.hpp>
#include <utility>

#include "base/error.h"

namespace fettle {

template <class T = void>
using Result = tl::expected<T, Diagnostic>;

/// `return fail(ErrorCode::E204, "4 x 8 < 100", "split");`
inline tl::unexpected<Diagnostic> fail(ErrorCode code, std::string message = {}, std::string where = {}) {
  return tl::unexpected<Diagnostic>(Diagnostic(code, std::move(message), std::move(where)));
}
inline tl::unexpected<Diagnostic> fail(Diagnostic diagnostic) {
  return tl::unexpected<Diagnostic>(std::move(diagnostic));
}

}  // namespace fettle

#define FETTLE_CONCAT_INNER(a, b) a##b
#define FETTLE_CONCAT(a, b) FETTLE_CONCAT_INNER(a, b)

/// `FETTLE_TRY(auto x, f());` gives x the value of f(), or returns its diagnostic.
#define FETTLE_TRY(declaration, expression) \
  FETTLE_TRY_INNER(FETTLE_CONCAT(fettle_result_, __COUNTER__), declaration, expression)
#define FETTLE_TRY_INNER(temporary, declaration, expression)                                 \
  auto temporary = (expression);                                                             \
  if (!temporary) return tl::unexpected<::fettle::Diagnostic>(std::move(temporary).error()); \
  declaration = std::move(*temporary)

/// `FETTLE_TRY_VOID(f());` returns the diagnostic of f(), if there is one.
#define FETTLE_TRY_VOID(expression)                                                  \
  do {                                                                               \
    if (auto fettle_status = (expression); !fettle_status)                           \
      return tl::unexpected<::fettle::Diagnostic>(std::move(fettle_status).error()); \
  } while (false)
