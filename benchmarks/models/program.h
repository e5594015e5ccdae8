#pragma once
// The program `fettle`, started as a user starts it.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "runtime/tensor.h"

namespace fettle::bench {

/// Runs the program beside this one, with no records and no caches but those in `home`;
/// its words on standard error pass through unless quiet. Returns the seconds it took. E401 where it failed.
Result<double> run_fettle(std::vector<std::string> args, const std::string& home, bool quiet);

/// "--shape", "x=1,3,48,320" for each.
std::vector<std::string> shape_arguments(const std::map<std::string, std::vector<int64_t>>& shapes);

/// Seconds from the start of `fettle run MODEL.onnx`, untuned and with empty caches, to the written outputs: the
/// fastest of three. `folder` takes inputs, outputs and caches. Errors: those of run_fettle · E702.
Result<double> seconds_to_first_output(const std::string& model, const std::vector<NamedTensor>& inputs, int threads,
                                       const std::string& folder, bool quiet);

}  // namespace fettle::bench
