#pragma once
// How a function of this room becomes one of the interface.

#include <fmt/format.h>

#include <new>

#include "pjrt/error.h"

namespace fettle::pjrt {

/// Calls `work` where the caller's struct has all the fields that this version knows. Nothing is thrown to the caller.
template <class Args>
PJRT_Error* run_entry(Args* args, size_t least_bytes, const char* name, PJRT_Error* (*work)(Args&)) noexcept {
  try {
    if (args == nullptr) return refuse(fmt::format("{}: no arguments", name));
    if (args->struct_size < least_bytes)
      return refuse(fmt::format(
          "{}: the caller's arguments take {} bytes, and Fettle's, of PJRT {}.{}, take {}: the caller is older", name,
          args->struct_size, PJRT_API_MAJOR, PJRT_API_MINOR, least_bytes));
    return work(*args);
  } catch (const std::bad_alloc&) {
    return make_error(PJRT_Error_Code_RESOURCE_EXHAUSTED, fmt::format("{}: memory ran out", name));
  }
}

/// FETTLE_PJRT_ENTRY(api, PJRT_Client_Create, create_client): the slot calls `PJRT_Error* create_client(Args&)`.
#define FETTLE_PJRT_ENTRY(api, name, work)                                        \
  (api).name = [](name##_Args* args) -> PJRT_Error* {                             \
    return ::fettle::pjrt::run_entry(args, name##_Args_STRUCT_SIZE, #name, work); \
  }

}  // namespace fettle::pjrt
