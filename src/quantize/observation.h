#pragma once
// A model that also gives values from its middle, run on samples.

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/open.h"
#include "runtime/tensor.h"

namespace fettle::quantize {

/// What a model is calibrated on: inputs by name, sample after sample, each read when its turn comes.
struct Samples {
  size_t count = 0;
  std::function<Result<std::vector<NamedTensor>>(size_t i)> read;
};

/// Shapes of the inputs that are the same in all samples: others stay open. Errors: those of reading.
Result<InputShapes> common_shapes(const Samples& samples);

/// Bytes that the values of one sample may take at once.
inline constexpr int64_t kObservedBytes = int64_t{256} << 20;

/// Names in lists of which each takes no more than `limit_bytes` at typical sizes, and `lost`: names that tell no
/// tensor. Errors: those of load_model.
struct ObservedGroups {
  std::vector<std::vector<std::string>> groups;
  std::vector<std::string> lost;
};
Result<ObservedGroups> group_observed(const OnnxModel& model, const std::vector<std::string>& names,
                                      const OpenOptions& options, int64_t limit_bytes = kObservedBytes);

/// The model compiled with these values as outputs, beside its own. Errors: those of open_model.
Result<Model> open_observed(const OnnxModel& model, std::span<const std::string> names, const OpenOptions& options);

}  // namespace fettle::quantize
