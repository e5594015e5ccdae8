#pragma once
// Subjects: the workloads whose spaces are recorded.

#include <string>
#include <vector>

#include "base/result.h"

namespace fettle::digests {

struct Subject {
  std::string name;      // "conv 3x3 56x56 64-64"; "resnet50: Conv_Relu 1f2e3d4c"
  std::string workload;  // its text, so that each thread reads a tree of its own
  bool of_model = false;
};

/// The tasks of the search benchmark.
std::vector<Subject> search_subjects();
/// The distinct tasks of the models of benchmarks/models.json, untuned, as far as no model before has them. Errors: a
/// file that is not there (`make models`).
Result<std::vector<Subject>> model_subjects();

}  // namespace fettle::digests
