#pragma once
// Diagnostics: what went wrong, under a stable code, made cheap enough to be thrown away by a search.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "base/ref.h"

namespace fettle {

/// One enumerator for each line of error_codes.inc.
enum class ErrorCode : uint16_t {
  kNone = 0,
#define FETTLE_ERROR(code, meaning, remedy) code,
#include "base/error_codes.inc"
#undef FETTLE_ERROR
};

/// The table behind `fettle explain`.
struct ErrorInfo {
  ErrorCode code;
  std::string_view name;     // "E201"
  std::string_view meaning;  // what it means
  std::string_view remedy;   // what to do
};

/// Returns the entry of `code`; the name of kNone is empty.
const ErrorInfo& error_info(ErrorCode code);
/// Returns the entry named `name` ("E201"), or null.
const ErrorInfo* find_error(std::string_view name);
/// All entries, in the order of error_codes.inc.
const ErrorInfo* error_table(size_t* count);

/// An expected failure. `message` is one sentence of specifics; `where` names the primitive, node, file or line.
/// `program` and `place` let the schedule room print the program with the place marked, when someone asks.
struct Diagnostic {
  ErrorCode code = ErrorCode::kNone;
  std::string message;
  std::string where;
  Ref<const RefCounted> program;
  const void* place = nullptr;

  Diagnostic() = default;
  Diagnostic(ErrorCode c, std::string m, std::string w = {}) : code(c), message(std::move(m)), where(std::move(w)) {}

  /// "E201: the loop is annotated … (split: loop i is vectorized). Apply this primitive before …"
  std::string to_string() const;
};

}  // namespace fettle
