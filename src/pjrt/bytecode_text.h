#pragma once
// StableHLO's bytecode as text: jaxlib, which has given it, reads each of its versions.

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace fettle::pjrt {

/// Gives generic text of bytecode; it stays until the next call on this thread. Null: it cannot be read.
using BytecodeReader = const char* (*)(const char* code, int64_t code_bytes, int64_t* text_bytes);
void set_bytecode_reader(BytecodeReader reader);

/// E602 it cannot be read, or there is nobody who does
Result<std::string> text_of_bytecode(std::string_view code);

}  // namespace fettle::pjrt
