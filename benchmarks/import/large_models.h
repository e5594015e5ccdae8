#pragma once
// Models that are large in one way each: what reading and optimising them takes must not grow faster than they do.

#include <functional>
#include <string>
#include <vector>

namespace fettle::bench {

struct LargeModel {
  std::string name;
  double limit_s;  // from the file to the optimised graph, on a machine with a core of its own
  /// The ONNX file. The full size is n = 1; tests take a part of it.
  std::function<std::string(double n)> bytes;
  bool is_refused = false;  // at any size, and as quickly
};

/// Chains, models that are wide, values with many uses, open sizes, long names, branches and bodies.
const std::vector<LargeModel>& large_models();

}  // namespace fettle::bench
