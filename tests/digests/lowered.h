#pragma once
// Lowered: the code that a scheduled program becomes, as a target's back end gets it.

#include <string>

#include "schedule/schedule.h"
#include "target/target.h"

namespace fettle::digests {

struct Lowered {
  std::string canonical;  // without names of what is bound
  std::string text;       // for people
};

/// Kernel and prologue, or what is launched on a target with threads; where there is no lowering, the error.
Lowered lowered(const Schedule& schedule, const Target& target);

}  // namespace fettle::digests
