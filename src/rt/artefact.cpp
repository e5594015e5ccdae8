// The functions of an artefact that know its model. Linked into artefacts only: the description comes from the
// compiler.

#include "rt/model.h"
#include "rt/targets.h"

extern "C" {

extern const FettleModelInfo fettle_artefact;
}

namespace {

/// The target that was taken first: whoever asks later gets the same one, and quickly.
const FettleModelInfo* taken = nullptr;

const FettleModelInfo* take_target(char* why, int32_t why_bytes) {
  if (fettle_count_targets(&fettle_artefact) == 0) return &fettle_artefact;
  if (const FettleModelInfo* before = __atomic_load_n(&taken, __ATOMIC_RELAXED)) return before;
  const FettleModelInfo* picked = fettle_pick_target(&fettle_artefact, nullptr, why, why_bytes);
  __atomic_store_n(&taken, picked, __ATOMIC_RELAXED);
  return picked;
}

}  // namespace

extern "C" {

FettleModel* fettle_artefact_open(uint32_t abi_version, const FettleOptions* options) {
  char why[256];
  const FettleModelInfo* target = take_target(why, sizeof why);
  return target == nullptr ? fettle_rt_refuse(&fettle_artefact, why) : fettle_rt_open(target, abi_version, options);
}

const FettleModelInfo* fettle_artefact_info(void) {
  const FettleModelInfo* target = take_target(nullptr, 0);
  return target == nullptr ? &fettle_artefact : target;
}
}
