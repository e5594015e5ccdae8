#pragma once
// Compiled libraries of one model and other engines on the same file, inputs and threads: differences and times.

#include <limits>
#include <string>
#include <vector>

#include "base/result.h"
#include "harness/statistics.h"
#include "runtime/model.h"

namespace fettle::bench {

inline constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct ModelLibraries {
  std::string model;    // the ONNX file
  std::string untuned;  // libraries made from it; without a tuned one its figures are NaN
  std::string tuned;
  int threads = 1;
};

struct ModelTimes {
  Estimate untuned, tuned, onnxruntime, openvino;             // ns
  double untuned_over_best = kNone, tuned_over_best = kNone;  // by medians, within rounds
  Estimate tuned_over_untuned;                                // by rounds
  double difference = kNone;       // of scale from ONNX Runtime: the largest of every output of both libraries
  double outside_kernels = kNone;  // of the time of a run of the best library, 0.01 = 1 %
  double extra_bytes = kNone;      // of anonymous memory beyond the arena, of the last library
};

/// Everything interleaved in one run of `seconds`. `folder` takes the arrays that engines exchange. Errors: those of
/// the libraries and engines.
Result<ModelTimes> time_libraries(const ModelLibraries& libraries, const std::vector<NamedTensor>& inputs,
                                  double seconds, const std::string& folder);

}  // namespace fettle::bench
