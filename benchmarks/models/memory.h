#pragma once
// Peak memory of running a model, in processes of the same kind for every engine (see peak_memory.py).

#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"

namespace fettle::bench {

struct PeakMemory {
  double fettle_bytes = 0;  // above the baseline that both processes share
  double onnxruntime_bytes = 0;
};

/// Loads and runs the library and the ONNX file it was made from, one after the other. `folder` takes the inputs.
/// Errors: E708 a process failed.
Result<PeakMemory> measure_peak_memory(const std::string& library, const std::string& model, int threads,
                                       const std::vector<NamedTensor>& inputs, size_t n_outputs,
                                       const std::string& folder);

}  // namespace fettle::bench
