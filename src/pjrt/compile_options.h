#pragma once
// What of XLA's options of compiling decides anything here.

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace fettle::pjrt {

struct ProgramOptions {
  int64_t replicas = 1;
  int64_t partitions = 1;
};

/// From a serialised CompileOptionsProto. Fields that it has and this does not know are left alone.
/// E709 the bytes are no such message
Result<ProgramOptions> read_compile_options(std::string_view bytes);

}  // namespace fettle::pjrt
