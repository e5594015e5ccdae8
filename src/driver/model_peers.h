#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace fettle::bench {

/// Where the Python that has the peers and the script that serves them are.
struct PeerPaths {
  std::string python;
  std::string script;
};

/// Python: $FETTLE_PYTHON, else python/bin/python or build/python/bin/python beneath this program's folder or one above
/// it, else `python3`. Script: share/fettle/model_peers.py or benchmarks/peers/model_peers.py beneath one of these
/// folders. Errors: E708 where there is no script.
Result<PeerPaths> find_peer_paths();

/// What a peer shall run. Inputs without a file get reproducible random values.
struct PeerModel {
  std::string file;  // .onnx
  int threads = 1;
  std::map<std::string, std::vector<std::int64_t>> shapes;  // by input; needed where the model leaves them open
  std::map<std::string, std::string> inputs;                // .npy files by input
  std::uint64_t seed = 0;
  bool keeps_open = false;  // sizes that the model leaves open are not fixed: inputs of others may follow
};

struct PeerTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::string dtype;  // as numpy calls it: "float32"
  std::string file;   // .npy; empty if it was not written
};

struct PeerLoaded {
  double load_s = 0;
  double first_run_s = 0;
  std::vector<PeerTensor> inputs;
  std::vector<PeerTensor> outputs;
};

struct PeerTimes {
  std::vector<double> times_ns;  // of each run; fewer than asked if the time limit came first
  bool idle = true;              // its threads sleep again
};

struct PeerMemory {
  std::int64_t peak_rss_bytes = 0;
  std::int64_t before_load_bytes = 0;
};

/// Another engine running one ONNX model in a process of its own, timed on request, so that its runs can be interleaved
/// with others. Its threads sleep whenever no call is under way. The protocol is described in model_peers.py.
///
/// Every call fails with E708 (what happened, and the last thing the process said) if Python or the package is missing,
/// if the engine refuses the model, or if the process ends or does not answer in time. After the latter two every
/// further call fails.
class ModelPeer {
 public:
  /// peer: "onnxruntime" or "openvino".
  static Result<ModelPeer> start(const std::string& peer, const PeerPaths& paths, double timeout_s = 60);
  static Result<ModelPeer> start(const std::string& peer);

  ModelPeer(ModelPeer&&) noexcept;
  ModelPeer& operator=(ModelPeer&&) noexcept;
  /// Ends the process.
  ~ModelPeer();

  const std::string& name() const;
  const std::string& version() const;

  /// Loads the model and runs it once. Once a peer.
  Result<PeerLoaded> load(const PeerModel& model, double timeout_s = 300);

  /// Other inputs in place of those that it has, .npy files by input. Sizes may differ where they were kept open.
  Result<> give(const std::map<std::string, std::string>& inputs, double timeout_s = 300);

  /// Runs `warm` times untimed, then `runs` times, none beginning after limit_s.
  Result<PeerTimes> time(int runs, int warm = 1, double limit_s = 60);

  /// Mean over time(runs), ns: for a Contender's `timed`.
  Result<double> mean_time_ns(int runs);

  /// Runs once and writes each output as a .npy file into the folder, which must exist.
  Result<std::vector<PeerTensor>> outputs(const std::string& folder);

  Result<PeerMemory> memory();

 private:
  struct State;
  explicit ModelPeer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fettle::bench
