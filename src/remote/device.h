#pragma once
// A machine that measures for others: it asks a tracker for candidates, has a Runner measure them, and says what came
// of it.

#include <atomic>
#include <functional>
#include <string>
#include <vector>

#include "measure/runner.h"
#include "remote/credentials.h"
#include "target/target.h"

namespace fettle {

struct DeviceOptions {
  Address tracker{"127.0.0.1", 9190};
  Credentials credentials;
  std::string key;   // what it is offered as: "zen4-2c"
  std::string name;  // for people; empty: host and process
  Target target;
  int threads = 1;                              // that a candidate may use
  std::vector<double> micro_kernels;            // MicroKernelTable::to_numbers of the target; may be empty
  const std::atomic<bool>* stop = nullptr;      // set: leave, and give back what is not done
  std::function<void(const std::string&)> say;  // a line on what happens; from one thread at a time
  /// A tracker that cannot be reached is called again and again; when that was in vain for so long, it is given up.
  double patience_s = 3600;
};

/// Serves until it is stopped. Results that cannot be delivered are kept until they can, for a minute. Errors: E801 ·
/// E802 · E803 · E805 refused by the tracker · E406 the runner gave up.
Result<> serve_device(Runner& runner, const DeviceOptions& options);

}  // namespace fettle
