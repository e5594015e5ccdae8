#include "rt/targets.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "rt/cpu.h"
#include "rt/text.h"

namespace fettle::rt {
namespace {

const FettleModelInfo* refuse(const Text& text, char* why, int32_t why_bytes) {
  if (why_bytes > 0) {
    const int32_t take = text.length < why_bytes ? text.length : why_bytes - 1;
    memcpy(why, text.chars, static_cast<size_t>(take));
    why[take] = 0;
  }
  return nullptr;
}

bool knows_targets(const FettleModelInfo& info) {
  return info.struct_bytes >= offsetof(FettleModelInfo, n_packings) + sizeof info.n_packings;
}

}  // namespace
}  // namespace fettle::rt

using namespace fettle::rt;

extern "C" {

int32_t fettle_count_targets(const FettleModelInfo* info) {
  return knows_targets(*info) && info->targets != nullptr ? info->n_targets : 0;
}

const char* fettle_target_name(const FettleModelInfo* info) {
  return knows_targets(*info) && info->target != nullptr ? info->target : info->target_cpu;
}

const FettleModelInfo* fettle_pick_target(const FettleModelInfo* info, const char* wanted, char* why,
                                          int32_t why_bytes) {
  const FettleModelInfo* const alone[] = {info};
  const bool has_several = fettle_count_targets(info) > 0;
  const FettleModelInfo* const* targets = has_several ? info->targets : alone;
  const int32_t count = has_several ? info->n_targets : 1;
  const char* said_by = "";
  if (wanted == nullptr || *wanted == 0) {
    wanted = has_several ? getenv("FETTLE_TARGET") : nullptr;
    said_by = ", which FETTLE_TARGET asks for";
  }
  if (wanted != nullptr && *wanted == 0) wanted = nullptr;
  Text text{}, names{};
  bool is_known = wanted == nullptr;
  for (int32_t i = 0; i < count; ++i) {
    const FettleModelInfo& target = *targets[i];
    const char* name = fettle_target_name(&target);
    names << (i == 0 ? "" : ", ") << name;
    if (wanted != nullptr && strcmp(wanted, name) != 0) continue;
    is_known = true;
    char missing[32];
    if (fettle_cpu_check(target.target_features, missing, sizeof missing) == 0) return targets[i];
    text << (text.length == 0 ? "this machine lacks " : "; ") << missing << ", which " << name << " needs";
  }
  if (is_known) return refuse(text, why, why_bytes);
  return refuse(Text{} << "the model has no target '" << wanted << "'" << said_by << "; it has " << names.chars, why,
                why_bytes);
}
}
