#pragma once
// Tables of which bytes choose elements.

#include <cstdint>

namespace fettle {

/// Values that a byte can have, and so elements of such a table.
inline constexpr int64_t kByteValues = 256;

}  // namespace fettle
