#include "pjrt/error.h"

#include <utility>

namespace fettle::pjrt {
namespace {

PJRT_Error_Code code_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::E602:
    case ErrorCode::E604:
    case ErrorCode::E605:
    case ErrorCode::E606:
    case ErrorCode::E704:
    case ErrorCode::E705:
    case ErrorCode::E709:
      return PJRT_Error_Code_INVALID_ARGUMENT;
    case ErrorCode::E603:
      return PJRT_Error_Code_UNIMPLEMENTED;
    case ErrorCode::E608:
      return PJRT_Error_Code_RESOURCE_EXHAUSTED;
    default:
      return PJRT_Error_Code_INTERNAL;
  }
}

}  // namespace

PJRT_Error* make_error(PJRT_Error_Code code, std::string message) { return new PJRT_Error{code, std::move(message)}; }

PJRT_Error* make_error(const Diagnostic& diagnostic) {
  return make_error(code_of(diagnostic.code), diagnostic.to_string());
}

PJRT_Error* refuse(std::string message) { return make_error(PJRT_Error_Code_INVALID_ARGUMENT, std::move(message)); }

void add_errors(PJRT_Api& api) {
  api.PJRT_Error_Destroy = [](PJRT_Error_Destroy_Args* args) { delete args->error; };
  api.PJRT_Error_Message = [](PJRT_Error_Message_Args* args) {
    args->message = args->error->message.c_str();
    args->message_size = args->error->message.size();
  };
  api.PJRT_Error_GetCode = [](PJRT_Error_GetCode_Args* args) -> PJRT_Error* {
    args->code = args->error->code;
    return nullptr;
  };
}

}  // namespace fettle::pjrt
