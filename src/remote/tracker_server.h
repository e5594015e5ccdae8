#pragma once
// The tracker, listening.

#include <memory>

#include "remote/credentials.h"
#include "remote/limits.h"

namespace fettle {

struct TrackerOptions {
  Address address{"127.0.0.1", 9190};  // port 0: one that is free
  Credentials credentials;
  TrackerLimits limits;
  TrackerTimes times;
};

/// Serves from when it was started until it goes. Callers that bring the wrong token, too large a message or one that
/// makes no sense get an error; nothing that they send ends it.
class TrackerServer {
 public:
  /// Errors: E802 the credentials make no sense · E801 it cannot listen there.
  static Result<std::unique_ptr<TrackerServer>> start(const TrackerOptions& options);
  ~TrackerServer();

  const Address& address() const;

 private:
  struct State;
  explicit TrackerServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace fettle
