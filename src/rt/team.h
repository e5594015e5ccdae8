#pragma once
// A team of threads for fork and join, in C so that artefacts and C++ share it.

#include "rt/abi.h"

extern "C" {

struct FettleTeamOptions {
  int32_t threads;  // including the caller; 0: fettle_usable_cpus()
  int32_t pin;      // 1: worker i is bound to core i of those usable, distinct cores before hardware siblings
  int32_t spin_us;  // idle spinning before sleep; 0: 200; negative: none
  int32_t first;    // with pin: cores that come before the caller's, which other teams have
};

/// Starts threads - 1 workers. Where the system refuses some, the team is smaller; fettle_team_size tells.
/// A team larger than the CPUs it may use spins for a moment only, then sleeps; so does one whose threads are displaced
/// by others.
/// Workers take no signals. After fork() the child must make its own team and never touch this one.
/// Returns null when there is no memory or threads < 0.
FettleTeam* fettle_team_create(const FettleTeamOptions* options);

/// A team whose regions run on threads of the host program. `host` is copied. Null: no memory, or a callback is
/// missing.
FettleTeam* fettle_team_wrap(const FettleHostTeam* host);

/// Calls part(region, t) once for each t in [0, threads), and returns when all calls have.
using FettleThreads = void (*)(void* user, int64_t threads, FettleBody part, void* region);

/// Runs n iterations on threads that `start` has, as a team does: each begins with a contiguous share, and who is done
/// takes from others'. So `start` is called once, whatever n is. It may give fewer threads than it is asked for. At
/// most 128 take part. Where there is one thread it is not called.
void fettle_share_out(int64_t n, int32_t threads, FettleBody body, void* closure, FettleThreads start, void* user);

/// Ends and joins the workers. Nothing may be running on the team. Null is fine.
void fettle_team_destroy(FettleTeam* team);

/// CPUs that this process may use: its affinity mask, cut to the cgroup's CPU quota (rounded down). At least 1.
int32_t fettle_usable_cpus(void);
}
