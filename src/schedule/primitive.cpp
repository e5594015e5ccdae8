#include "schedule/primitive.h"

#include <algorithm>

namespace fettle {

tl::unexpected<Diagnostic> detail::bad_argument(std::string_view name) {
  return fail(ErrorCode::E224, "argument \"" + std::string(name) + "\" is unknown or of the wrong type");
}

const PrimitiveDef* find_primitive(std::string_view name) {
  // The table is in alphabetical order of the files' names, which are the primitives'.
  const auto defs = primitive_defs();
  const auto found = std::ranges::lower_bound(defs, name, {}, [](const PrimitiveDef* def) { return def->name; });
  return found != defs.end() && (*found)->name == name ? *found : nullptr;
}

}  // namespace fettle
