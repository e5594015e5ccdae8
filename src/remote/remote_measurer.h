#pragma once
// Candidates timed on other machines, which a tracker knows.

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "measure/runner.h"
#include "remote/credentials.h"
#include "target/target.h"

namespace fettle {

struct RemoteMeasurerOptions {
  Address tracker{"127.0.0.1", 9190};
  Credentials credentials;
  std::string key;
  /// Of Target::fingerprint: devices that differ are refused (E805). Empty: whatever they are.
  std::string fingerprint;
  double device_wait_s = 60;                // for a device of the key, when there is none
  double tracker_wait_s = 60;               // for a tracker that does not answer
  const std::atomic<bool>* stop = nullptr;  // set: nothing is waited for any more
};

struct RemoteSession;

/// The devices of a key, as one runner. Each call of measure() is spread over all of them; where candidates occur more
/// than once, to be compared in turn, all of it goes to one. What a device that is lost had not finished, another
/// measures. A candidate that costs two devices is E403, with lost_worker; one that the tracker does not take is E406.
/// Used by one thread at a time.
class RemoteMeasurer : public Runner {
 public:
  /// Waits until the tracker knows the key. Errors: E801 … E805.
  static Result<std::unique_ptr<RemoteMeasurer>> connect(RemoteMeasurerOptions options);
  ~RemoteMeasurer() override;

  /// The devices'.
  const Target& target() const;
  int threads() const;
  /// MicroKernelTable::to_numbers, measured by a device; may be empty.
  const std::vector<double>& micro_kernels() const;

  Result<> set_workload(const Func& workload, const WorkloadOptions& options = {}) override;
  /// Errors: E801 the tracker did not come back · E804 no device did · E102, E709 the workload cannot be measured.
  Result<std::vector<MeasureResult>> measure(std::span<const std::string> traces,
                                             const MeasureRequest& request = {}) override;
  const std::map<ErrorCode, int64_t>& failures() const override;

 private:
  explicit RemoteMeasurer(std::unique_ptr<RemoteSession> state);
  std::unique_ptr<RemoteSession> state_;
};

}  // namespace fettle
