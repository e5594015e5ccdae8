#pragma once
// Targets whose loops can be bound to threads.

#include <string_view>

#include "target/target.h"

namespace fettle {

/// "opencl", "cuda", "cuda -arch sm_80". E709.
Result<Target> parse_gpu_target(std::string_view text);

}  // namespace fettle
