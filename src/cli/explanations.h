#pragma once
// How errors come about, with an example of each: what `fettle explain` adds to error_codes.inc.

#include <span>
#include <string_view>

#include "base/error.h"

namespace fettle::cli {

struct Explanation {
  ErrorCode code = ErrorCode::kNone;
  std::string_view cause;
  std::string_view example;
};

/// One for each code, in the order of the codes.
std::span<const Explanation> explanations();
/// Empty texts for a code without one, which a test excludes.
const Explanation& explanation_of(ErrorCode code);

}  // namespace fettle::cli
