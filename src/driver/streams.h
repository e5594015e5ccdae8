#pragma once
// How many calls of a model are done in a second where several run at once.

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "runtime/model.h"

namespace fettle {

struct StreamTimes {
  int64_t runs = 0;            // of all streams
  double runs_per_second = 0;  // of all together
  /// Of one run, in milliseconds: what this share of the runs took at most.
  double median_ms = 0, p90_ms = 0, p99_ms = 0, max_ms = 0;
};

/// Runs the model on these inputs for so long, in `streams` contexts at once, each on a thread of its own that calls
/// again as soon as it has its outputs. Contexts take the threads of the model's streams in turn. Each has run once
/// before the time begins, and finishes what it has begun when it ends. E709 streams < 1 or seconds <= 0 · E710 the
/// system refuses a thread. Errors also: those of make_context and of runs; one of them ends all streams.
Result<StreamTimes> time_streams(const Model& model, const std::vector<NamedTensor>& inputs, int streams,
                                 double seconds);

/// The value that the share `part`, 0 to 1, of the values does not exceed; `sorted` is not empty.
double quantile(const std::vector<double>& sorted, double part);

}  // namespace fettle
