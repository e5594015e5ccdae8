#include "cli/explanations.h"

#include <algorithm>

namespace fettle::cli {
namespace {

constexpr Explanation kExplanations[] = {
#define FETTLE_EXPLAIN(code, cause, example) {ErrorCode::code, cause, example},
#include "cli/explanations.inc"
#undef FETTLE_EXPLAIN
};
constexpr Explanation kNone{};

}  // namespace

std::span<const Explanation> explanations() { return kExplanations; }

const Explanation& explanation_of(ErrorCode code) {
  const auto* found = std::find_if(std::begin(kExplanations), std::end(kExplanations),
                                   [&](const Explanation& e) { return e.code == code; });
  return found == std::end(kExplanations) ? kNone : *found;
}

}  // namespace fettle::cli
