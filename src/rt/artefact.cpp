// The functions of an artefact that know its model. Linked into artefacts only: the description comes from the
// compiler.

#include "rt/model.h"

extern "C" {

extern const FettleModelInfo fettle_artefact;

FettleModel* fettle_artefact_create(const FettleOptions* options) {
  return fettle_rt_create(&fettle_artefact, options);
}

const FettleModelInfo* fettle_artefact_info(void) { return &fettle_artefact; }
}
