#pragma once
// Kernels that are one call of a function of the run-time system, with data that say what it does.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "target/target.h"

namespace fettle {

/// An object as compile_object makes it, whose `entry` (a FettleKernel, rt/abi.h) returns
///   int32_t function(FettleContext*, void** buffers, const int64_t* ints, const void* data, uintptr_t* state)
/// with `data` as it is here, aligned to 64 bytes, and a state of its own that is 0 at first. E302.
Result<std::vector<uint8_t>> compile_forwarder(const std::string& entry, const std::string& function,
                                               std::span<const uint8_t> data, const Target& target);

}  // namespace fettle
