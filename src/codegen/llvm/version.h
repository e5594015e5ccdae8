#pragma once

namespace fettle {

/// Raised by whoever changes what machine code a lowered program becomes: records of other versions no longer apply.
inline constexpr int kCodegenVersion = 19;

}  // namespace fettle
