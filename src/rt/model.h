#pragma once
// Models and their contexts: what an artefact's exported functions do.

#include "rt/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a model: checks the processor and starts threads. abi_version: FETTLE_ABI_VERSION, as the program was compiled
 * with; another one is refused. options null: all defaults.
 * Null on failure; then fettle_rt_error(null) has the reason. */
FettleModel* fettle_rt_open(const FettleModelInfo* info, uint32_t abi_version, const FettleOptions* options);

/* Null, and why a model cannot be opened: fettle_rt_error(null) has it, a clause, in its sentence. */
FettleModel* fettle_rt_refuse(const FettleModelInfo* info, const char* why);

#include "rt/model_functions.h"

/* The functions above, for FettleModelInfo::functions. */
extern const FettleFunctions fettle_rt_functions;

#ifdef __cplusplus
}
#endif
