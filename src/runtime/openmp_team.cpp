#include "runtime/openmp_team.h"

#include <algorithm>

#include "rt/team.h"

namespace fettle {
namespace {

struct Region {
  const OpenMp* openmp;
  int64_t parts;
  FettleBody part;
  void* closure;
};

/// What each thread of a region runs. The library may give fewer threads than were asked for.
void run_thread(void* data) {
  const auto& region = *static_cast<const Region*>(data);
  const int threads = region.openmp->num_threads();
  for (int64_t i = region.openmp->thread_num(); i < region.parts; i += threads) region.part(region.closure, i);
}

void start(void* user, int64_t threads, FettleBody part, void* closure) {
  const auto* openmp = static_cast<const OpenMp*>(user);
  Region region{.openmp = openmp, .parts = threads, .part = part, .closure = closure};
  openmp->parallel(run_thread, &region, static_cast<unsigned>(threads), 0);
}

int32_t team_size(void* user) { return std::max(1, static_cast<const OpenMp*>(user)->max_threads()); }

void parallel_for(void* user, int64_t n, FettleBody body, void* closure) {
  fettle_share_out(n, team_size(user), body, closure, start, user);
}

}  // namespace

FettleHostTeam openmp_team(const OpenMp& openmp) {
  FettleHostTeam team{};
  team.struct_bytes = sizeof team;
  team.user = const_cast<OpenMp*>(&openmp);
  team.size = team_size;
  team.parallel_for = parallel_for;
  return team;
}

}  // namespace fettle
