#pragma once
// What a tracker knows: devices by their keys, sessions of tuners, and the candidates that wait or are being measured.
// No network and no clock: each call is told the time, in seconds that only grow.
//
// A candidate is queued, leased to a device, or done. A lease is what a device got by one Next: candidates of one
// submission, as many as its share. What was leased to a device that is lost is queued again, first in line; from then
// on each goes alone, so that one that kills devices shows. Candidates that belong together (the same ones timed in
// turn) go to one device, and their results are given out when all are there. Each candidate gets one result.

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "remote/messages.h"

namespace fettle {

class TrackerState {
 public:
  explicit TrackerState(TrackerLimits limits = {}, TrackerTimes times = {}) : limits_(limits), times_(times) {}

  // Of devices. Errors: E803 · E805 the key stands for other machines.
  Result<wire::RegisterReply> enlist(const wire::RegisterRequest& request, double now_s);
  /// The lease that the device holds already, a new one, or none. first: the caller asks now, and does not wait since.
  Result<wire::Work> next(const wire::NextRequest& request, double now_s, bool first = true);
  Result<wire::BeatReply> beat(const wire::BeatRequest& request, double now_s);

  // Of tuners. Errors: E803 · E805 the devices are of another kind.
  Result<wire::OpenReply> open(const wire::OpenRequest& request, double now_s);
  Result<wire::SubmitReply> submit(const wire::SubmitRequest& request, double now_s);
  Result<wire::FetchReply> fetch(const wire::FetchRequest& request, double now_s, bool first = true);

  wire::QueryReply query(double now_s);
  /// Drops devices and sessions that are silent. True: something changed.
  bool tick(double now_s);

 private:
  /// What one Submit brought.
  struct Batch {
    std::string workload_id;
    wire::Measure measure;
    bool together = false;
    double submitted_s = 0;
    // Where they belong together:
    int losses = 0;  // of devices
    std::vector<uint64_t> ids;
    std::vector<wire::Outcome> held;  // until there is one for each
  };
  struct Job {
    wire::Job wire;
    std::shared_ptr<Batch> batch;
    std::string lease;  // empty: it is queued
    int losses = 0, losses_alone = 0;
  };
  struct Session {
    std::string key;
    std::map<std::string, std::shared_ptr<const wire::Workload>> workloads;
    std::deque<std::string> workload_order;
    std::map<uint64_t, Job> jobs;  // queued or leased
    std::deque<uint64_t> queue;
    std::deque<wire::Outcome> results;  // not yet known to have arrived
    uint64_t last = 0;                  // number of the last of them
    uint64_t taken = 0;                 // jobs up to this one were submitted
    double seen_s = 0;
  };
  struct Lease {
    std::string name, session;
    std::shared_ptr<Batch> batch;
    std::vector<uint64_t> jobs;  // without a result
    bool alone = false;
    double progress_s = 0;  // when something was last heard of it
  };
  struct Device {
    std::string key, name;
    double seen_s = 0;
    int64_t done = 0;
    std::optional<Lease> lease;
  };
  struct Key {
    wire::Machine machine;
    std::string fingerprint;
    double seen_s = 0;  // its last device
    int64_t done = 0, requeued = 0, lost_devices = 0, quarantined = 0;
    std::string last_served;  // session
  };

  int devices_of(const std::string& key) const;
  Result<> enter(const std::string& key, const wire::Machine& machine, double now_s);
  void remember_workload(Session& session, const std::string& id, const wire::Workload& workload);
  void take(Session& session, const wire::Job& job, const std::shared_ptr<Batch>& batch);
  void drop_jobs(const std::string& session_name);
  void drop_session(const std::string& session_name);
  void lease_some(Device& device, double now_s);
  void describe_lease(const Device& device, const std::string& workload_held, double now_s, wire::Work& work) const;
  void give_back(Device& device, bool lost);
  void leave(const std::string& device_name, bool lost);
  bool keep(Device& device, const std::string& lease, wire::Outcome outcome, double now_s);
  void finish(Session& session, const wire::Outcome& outcome);
  void blame(Session& session, uint64_t id);
  Digest identity(const Session& session, const Job& job) const;

  TrackerLimits limits_;
  TrackerTimes times_;
  std::map<std::string, Device> devices_;
  std::map<std::string, Session> sessions_;
  std::map<std::string, Key> keys_;
  std::set<Digest> quarantine_;
  std::deque<Digest> quarantine_order_;
  size_t held_bytes_ = 0;
  std::optional<double> start_s_;
};

}  // namespace fettle
