#pragma once
// Functions of the process that programs call by name: JAX's linear algebra and callbacks, which Python does.

#include "rt/model_api.h"

namespace fettle::pjrt {

/// What models are opened with: it asks whatever was set last.
FettleHostCalls host_calls();
/// Sets what does all calls of the process; `call` as FettleHostCalls has it. Null: there is nothing any more.
void set_host_calls(int32_t (*call)(void* user, const FettleHostCall* call), void* user);

}  // namespace fettle::pjrt
