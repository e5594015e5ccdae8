#pragma once
// Candidate: one program that a workload may become, as a search knows it.

#include <cstdint>
#include <string>

#include "base/hash.h"
#include "cost/cost_model.h"
#include "schedule/schedule.h"

namespace fettle {

/// Free of references to trees, but for what the decisions need: a search holds many.
struct Candidate {
  int64_t number = 0;     // in the order of their making, from 0
  DecisionMap decisions;  // all of them: given to the space, they make this program again
  size_t steps = 0;       // of its trace
  std::string trace;      // its text, once it was asked for (Workbench::trace)
  std::string canonical;  // of what is timed of it; where nothing is predicted, of the scheduled program (canonical.h)
  Digest program;         // the digest of that
  CandidateFeatures features;
};

}  // namespace fettle
