#pragma once
// Instances of compiled models: what an artefact's exported functions do.

#include "rt/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/// Makes an instance of the model: checks the processor, starts threads, takes the arena. options null: all defaults.
/// Null on failure; then fettle_rt_model_error(null) has the reason.
FettleModel* fettle_rt_model_create(const FettleModelInfo* info, const FettleOptions* options);

/// Runs it. inputs[i], outputs[i]: data of tensor i of the info, dense, row-major. Returns a FettleStatus.
int32_t fettle_rt_model_run(FettleModel* model, const void* const* inputs, void* const* outputs);

/// Calls `hook` after each kernel of later runs; null: no more.
void fettle_rt_model_profile(FettleModel* model, FettleKernelHook hook, void* user);

/// Ends the threads and frees all memory. Null is fine.
void fettle_rt_model_destroy(FettleModel* model);

/// One sentence on the last failure of this instance, or, for null, of the last failed creation; "" if there was none.
const char* fettle_rt_model_error(const FettleModel* model);

#ifdef __cplusplus
}
#endif
