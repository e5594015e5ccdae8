#include "runtime/host_calls.h"

#include <cstdio>
#include <mutex>
#include <shared_mutex>

namespace fettle {
namespace {

struct Registered {
  std::shared_mutex mutex;
  FettleHostCalls calls{};
};

Registered& registered() {
  static Registered made;
  return made;
}

int32_t run(void* user, const FettleHostCall* call) {
  (void)user;
  FettleHostCalls calls{};
  {
    const std::shared_lock lock(registered().mutex);
    calls = registered().calls;
  }
  if (calls.call != nullptr) return calls.call(calls.user, call);
  std::snprintf(call->error, static_cast<size_t>(call->error_bytes), "nothing in this process does calls");
  return FETTLE_KERNEL_FAILED;
}

}  // namespace

FettleHostCalls process_host_calls() {
  FettleHostCalls calls{};
  calls.struct_bytes = sizeof calls;
  calls.call = run;
  return calls;
}

void set_process_host_calls(int32_t (*call)(void* user, const FettleHostCall* call), void* user) {
  const std::unique_lock lock(registered().mutex);
  registered().calls.call = call;
  registered().calls.user = user;
}

}  // namespace fettle
