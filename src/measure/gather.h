#pragma once
// All threads of a team are up before anything is timed.

#include <cstdint>

#include "rt/abi.h"

namespace fettle {

/// Waits until every thread of the team has met the others a few times in a row. The workers of a new team take
/// milliseconds until each runs on a CPU of its own. Until then a kernel takes as long as on fewer threads. Gives up
/// after some 10 ms, since other programs may hold the CPUs. Returns how often all met.
int gather_team(FettleTeam* team);

}  // namespace fettle
