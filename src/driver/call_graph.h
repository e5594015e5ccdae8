#pragma once
// Which calls of a plan read what which others make.

#include <string>
#include <vector>

#include "graph/plan/plan.h"

namespace fettle {

struct GraphCall {
  std::string name;       // as a profile has it
  std::string task;       // the hash of its workload; empty: of a host function
  std::vector<int> from;  // earlier calls whose results it reads, ascending
};

/// In the order in which the host program mentions them, without copies of a value to itself. What an iteration leaves
/// to the next does not count.
std::vector<GraphCall> call_graph(const Plan& plan);

}  // namespace fettle
