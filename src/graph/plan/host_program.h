#pragma once
// The planned model as one loop program: slices of the arena and calls of kernels, in order.

#include <string>
#include <vector>

#include "ir/func.h"

namespace fettle {

/// Memory that the host program is given: which buffer, and where in it.
struct HostAddress {
  enum class Kind : uint8_t { kInput, kOutput, kArena, kConstant };
  Kind kind = Kind::kArena;
  int index = 0;  // which input, output or constant
  int64_t offset_bytes = 0;
};

struct HostCall {
  std::string kernel;  // symbol
  std::vector<HostAddress> buffers;
};

struct HostInterface {
  std::vector<int64_t> input_bytes, output_bytes, constant_bytes;
  int64_t arena_bytes = 0;
};

/// A Func over byte buffers: inputs, outputs, the arena, constants, as rt/abi.h has them. It is annotated `host`; a
/// call's one integer is its number, by which a profiler knows it:
///   call k_1f0c(&x[0], &arena[4096], &constant0[0], 0)
Func host_program(const std::string& name, const HostInterface& interface, const std::vector<HostCall>& calls);

}  // namespace fettle
