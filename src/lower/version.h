#pragma once

namespace fettle {

/// Raised by whoever changes what a scheduled program is lowered to: records of other versions no longer apply.
inline constexpr int kLoweringVersion = 32;

}  // namespace fettle
