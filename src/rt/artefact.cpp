// The functions of an artefact that know its model. Linked into artefacts only: the description comes from the
// compiler.

#include "rt/model.h"
#include "rt/targets.h"

extern "C" {

extern const FettleModelInfo fettle_artefact;

FettleModel* fettle_artefact_open(uint32_t abi_version, const FettleOptions* options) {
  char why[256];
  const FettleModelInfo* picked = fettle_pick_target(&fettle_artefact, nullptr, why, sizeof why);
  return picked == nullptr ? fettle_rt_refuse(&fettle_artefact, why) : fettle_rt_open(picked, abi_version, options);
}

const FettleModelInfo* fettle_artefact_info(void) {
  const FettleModelInfo* picked = fettle_pick_target(&fettle_artefact, nullptr, nullptr, 0);
  return picked == nullptr ? &fettle_artefact : picked;
}
}
