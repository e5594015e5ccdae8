#pragma once
// How long models take, alone or interleaved with other engines.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "driver/load.h"
#include "driver/model_peers.h"
#include "runtime/model.h"
#include "runtime/profiler.h"

namespace fettle {

/// Tensors of the model's input types: floats uniform in [-1, 1), integers 0, bools false. `shapes` are of inputs that
/// have open extents; others may be among them. Errors: E604 an extent is not given · E704 there is no such input ·
/// E705 a shape does not fit.
Result<std::vector<NamedTensor>> random_inputs(const Model& model, uint64_t seed, const InputShapes& shapes = {});

struct Latency {
  std::string name;
  double min_ms = 0;
  double median_ms = 0;
  int runs = 0;
};

/// Something whose runs are timed; times in ns.
struct TimedWork {
  std::string name;
  /// Runs once untimed, then `runs` times.
  std::function<Result<std::vector<double>>(int runs)> time;
};
/// The model of this context on these inputs; both must outlive it.
TimedWork timed_model(std::string name, ModelContext& context, const std::vector<NamedTensor>& inputs);
TimedWork timed_peer(bench::ModelPeer& peer);

struct BenchOptions {
  double seconds = 3;  // of timing, all works together
  int runs_a_round = 5;
  int min_rounds = 5;
  double max_seconds = 0;  // after which no round is begun but the first; 0: five times `seconds`
};

/// Rounds, in each of which each has its turn, until the time is up. Errors: those of the works.
Result<std::vector<Latency>> time_interleaved(const std::vector<TimedWork>& works, const BenchOptions& options);

/// Times of kernels over `runs` runs.
Result<std::vector<KernelTime>> profile_model(ModelContext& context, const std::vector<NamedTensor>& inputs, int runs,
                                              std::string* table);

/// Starts a peer on the model file, with inputs that are written to `folder`; the peer's outputs can then be compared.
/// keeps_open: PeerModel's. Errors: E708, E702.
Result<bench::ModelPeer> start_peer(const std::string& peer, const std::string& file, int threads,
                                    const std::vector<NamedTensor>& inputs, const std::string& folder,
                                    bool keeps_open = false);
/// Writes these to `folder`, and gives them to the peer. Errors: E708, E702.
Result<> give_inputs(bench::ModelPeer& peer, const std::vector<NamedTensor>& inputs, const std::string& folder);

/// max|a - b| / max|b| over all elements; infinity where shapes or types differ or a value is not finite. Both f32 or
/// f64.
double difference_of_scale(const Tensor& a, const Tensor& b);

}  // namespace fettle
