// The plug-in: what JAX looks for in the library that it loads, and fettle.jax, too.

#include "pjrt/api.h"
#include "runtime/host_calls.h"

#define FETTLE_EXPORTED extern "C" __attribute__((visibility("default")))

FETTLE_EXPORTED const PJRT_Api* GetPjrtApi() { return fettle::pjrt::pjrt_api(); }

FETTLE_EXPORTED void fettle_set_host_calls(int32_t (*call)(void* user, const FettleHostCall* call), void* user) {
  fettle::set_process_host_calls(call, user);
}
