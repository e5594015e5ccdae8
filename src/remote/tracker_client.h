#pragma once
// Calls of a tracker. Used by any number of threads at once.

#include <memory>
#include <string>

#include "devices.pb.h"
#include "remote/credentials.h"

namespace fettle {

/// Errors of all calls: E801 it cannot be reached, or does not answer · E802 it does not trust this side, or this side
/// not it · E803 the message is too large or makes no sense · E805 machines or versions differ.
class TrackerClient {
 public:
  /// Nothing is sent yet.
  TrackerClient(const Address& address, const Credentials& credentials);
  ~TrackerClient();
  TrackerClient(const TrackerClient&) = delete;
  TrackerClient& operator=(const TrackerClient&) = delete;

  const std::string& address() const;
  Result<wire::RegisterReply> enlist(const wire::RegisterRequest& request);
  Result<wire::Work> next(const wire::NextRequest& request);
  Result<wire::BeatReply> beat(const wire::BeatRequest& request);
  Result<wire::OpenReply> open(const wire::OpenRequest& request);
  Result<wire::SubmitReply> submit(const wire::SubmitRequest& request);
  Result<wire::FetchReply> fetch(const wire::FetchRequest& request);
  Result<wire::QueryReply> query();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace fettle
