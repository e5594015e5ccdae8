#pragma once
// Samples of a model's inputs, in files.

#include <string>
#include <vector>

#include "base/result.h"
#include "quantize/observation.h"

namespace fettle::quantize {

/// Each path is a sample, or a folder of samples:
///   x.npy                     a sample, of a model with one input
///   x.pb                      likewise: a TensorProto
///   folder of INPUT.npy       a sample: an array for each input, called as it is ('/', '\' and ':' become '_'),
///   or of input_N.pb          or in the model's order
///   folder of any of these    a sample each, in the order of their names
/// Errors: E701 nothing there can be read · E704 there is no such input, or one is missing
Result<Samples> open_samples(const std::vector<std::string>& paths, const OnnxModel& model);

}  // namespace fettle::quantize
