#pragma once
// A model's values, node by node, as its file has them: nothing is planned, scheduled or compiled.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "graph/graph.h"

namespace fettle {

struct ReferenceOptions {
  /// Of one node. Those of more work are not computed, nor what needs their results.
  double max_operations = 2e8;
  /// Each float that goes into arithmetic is off by up to so many epsilons of its type, at random: what becomes of that
  /// says how near results can be.
  double noise = 0;
  uint64_t seed = 1;
};

struct ReferenceRun {
  std::map<std::string, ConstantTensor> values;  // of each node at the top, by their names in the graph
  std::map<std::string, double> depth;           // of each: operations for one of its elements
  std::vector<const Node*> left_out;             // nodes that were not computed
};

/// Of a graph as it was imported, from the contents of its inputs. Each node is typed by the contents of its inputs, so
/// that sizes may depend on data. Errors: E704 an input is missing.
Result<ReferenceRun> run_reference(const Graph& graph, const std::map<std::string, ConstantTensor>& inputs,
                                   const ReferenceOptions& options = {});

}  // namespace fettle
