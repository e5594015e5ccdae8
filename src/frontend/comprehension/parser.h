#pragma once
// Text of comprehensions → trees.

#include <string_view>
#include <vector>

#include "base/result.h"
#include "frontend/comprehension/syntax.h"

namespace fettle::comprehension {

/// The functions of a file, in its order; names are looked up later. E611 with line and column.
Result<std::vector<FunctionTree>> parse(std::string_view text);

/// The element type called `name` ("float", "int32", "byte", "half"), or nothing.
std::optional<DType> scalar_type(std::string_view name);
/// The name that the language has for it.
std::string type_name(DType dtype);

}  // namespace fettle::comprehension
