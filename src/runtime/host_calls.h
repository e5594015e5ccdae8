#pragma once
// Functions of the process that models call by name, such as Python's linear algebra and callbacks.

#include "rt/model_api.h"

namespace fettle {

/// What models of this process are opened with where FettleOptions gives nothing else: it asks whatever was set last.
FettleHostCalls process_host_calls();
/// Sets what does all calls of the process; `call` as FettleHostCalls has it. Null: there is nothing any more.
void set_process_host_calls(int32_t (*call)(void* user, const FettleHostCall* call), void* user);

}  // namespace fettle
