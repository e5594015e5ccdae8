#pragma once
// Failures as PJRT has them: a code and a sentence.

#include <xla/pjrt/c/pjrt_c_api.h>

#include <string>

#include "base/error.h"

struct PJRT_Error {
  PJRT_Error_Code code = PJRT_Error_Code_UNKNOWN;
  std::string message;
};

namespace fettle::pjrt {

/// What a function of the interface returns: null where all went well. The caller owns it.
PJRT_Error* make_error(PJRT_Error_Code code, std::string message);
/// The diagnostic's sentence under the nearest code.
PJRT_Error* make_error(const Diagnostic& diagnostic);
/// INVALID_ARGUMENT
PJRT_Error* refuse(std::string message);

void add_errors(PJRT_Api& api);

}  // namespace fettle::pjrt
