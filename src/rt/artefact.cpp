// The functions of an artefact that know its model. Linked into artefacts only: the description comes from the
// compiler.

#include "rt/model.h"

extern "C" {

extern const FettleModelInfo fettle_artefact;

FettleModel* fettle_artefact_open(uint32_t abi_version, const FettleOptions* options) {
  return fettle_rt_open(&fettle_artefact, abi_version, options);
}

const FettleModelInfo* fettle_artefact_info(void) { return &fettle_artefact; }
}
