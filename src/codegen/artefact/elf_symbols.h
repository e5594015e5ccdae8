#pragma once
// Gives the symbols of objects other names, so that code of several targets can be linked side by side.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// Appends copies of the objects to `renamed`. The global symbols that any of them defines end in `suffix` there,
/// wherever one of them names them; others, which rt and libc define, are as they were. E303 one is no x86-64 object.
Result<> rename_symbols(std::span<const std::vector<uint8_t>> objects, std::string_view suffix,
                        std::vector<std::vector<uint8_t>>& renamed);

}  // namespace fettle
