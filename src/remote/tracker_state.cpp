#include "remote/tracker_state.h"

#include <fmt/format.h>

#include <algorithm>

#include "measure/protocol.h"

namespace fettle {
namespace {

wire::Outcome failed(uint64_t id, ErrorCode code, std::string message, bool lost_worker) {
  wire::Outcome outcome;
  outcome.set_id(id);
  outcome.set_code(std::string(error_info(code).name));
  outcome.set_message(std::move(message));
  outcome.set_lost_worker(lost_worker);
  return outcome;
}

tl::unexpected<Diagnostic> malformed(const std::string& what) { return fail(ErrorCode::E803, what); }

Result<> check_name(const std::string& name) {
  return is_drawn_name(name) ? Result<>() : malformed("a name is not 32 hexadecimal digits");
}

int64_t bytes_of(const wire::Workload& workload) {
  return static_cast<int64_t>(workload.func().size() + workload.reference_trace().size());
}

}  // namespace

int TrackerState::devices_of(const std::string& key) const {
  return static_cast<int>(
      std::count_if(devices_.begin(), devices_.end(), [&](const auto& entry) { return entry.second.key == key; }));
}

// --- devices

// A key stands for one kind of machine, as long as there is one of it or somebody tunes for it.
Result<> TrackerState::enter(const std::string& key, const wire::Machine& machine, double now_s) {
  FETTLE_TRY(const Target target, target_from_json(machine.target()));
  const std::string fingerprint = target.fingerprint().hex();
  const bool in_use = devices_of(key) > 0 || std::any_of(sessions_.begin(), sessions_.end(),
                                                         [&](const auto& entry) { return entry.second.key == key; });
  const auto found = keys_.find(key);
  if (found != keys_.end() && in_use) {
    const Key& known = found->second;
    const auto differs = [&](const std::string& how) { return fail(ErrorCode::E805, how, key); };
    if (known.fingerprint != fingerprint) return differs("the key's devices have another processor or other caches");
    if (known.machine.threads() != machine.threads())
      return differs(fmt::format("the key's devices give {} threads to a candidate", known.machine.threads()));
    if (known.machine.versions() != machine.versions())
      return differs("the key's devices run another version of Fettle: " + known.machine.versions());
  } else {
    keys_[key].machine = machine;
    keys_[key].fingerprint = fingerprint;
  }
  keys_[key].seen_s = now_s;
  return {};
}

Result<wire::RegisterReply> TrackerState::enlist(const wire::RegisterRequest& request, double now_s) {
  FETTLE_TRY_VOID(check_name(request.device()));
  if (request.protocol() != kRemoteProtocol) return fail(ErrorCode::E805, "the device speaks another protocol");
  if (!is_key(request.key())) return malformed("that is no device key");
  if (request.name().size() > limits_.name_bytes) return malformed("a device's name is too long");
  FETTLE_TRY_VOID(check(request.machine(), limits_));
  if (!devices_.contains(request.device())) {
    if (devices_.size() >= limits_.devices) return malformed("there are too many devices");
    FETTLE_TRY_VOID(enter(request.key(), request.machine(), now_s));
    devices_[request.device()].key = request.key();
  } else if (devices_[request.device()].key != request.key()) {
    return malformed("the device is registered under another key");
  }
  Device& device = devices_[request.device()];
  device.name = request.name();
  device.seen_s = now_s;
  wire::RegisterReply reply;
  reply.set_beat_s(times_.beat_s);
  return reply;
}

Result<wire::Work> TrackerState::next(const wire::NextRequest& request, double now_s, bool first) {
  FETTLE_TRY_VOID(check_name(request.device()));
  wire::Work work;
  const auto found = devices_.find(request.device());
  if (found == devices_.end()) return work;
  Device& device = found->second;
  if (first) device.seen_s = now_s;
  work.set_known(true);
  if (!device.lease) lease_some(device, now_s);
  if (device.lease) describe_lease(device, request.workload(), now_s, work);
  return work;
}

// Sessions of the key take turns.
void TrackerState::lease_some(Device& device, double now_s) {
  Key& key = keys_.at(device.key);
  auto chosen = sessions_.end();
  for (auto it = sessions_.begin(); it != sessions_.end(); ++it) {
    if (it->second.key != device.key || it->second.queue.empty()) continue;
    const bool after = it->first > key.last_served;
    if (chosen == sessions_.end() || (after && chosen->first <= key.last_served)) chosen = it;
  }
  if (chosen == sessions_.end()) return;
  key.last_served = chosen->first;
  Session& session = chosen->second;
  Lease lease{draw_name(), chosen->first, session.jobs.at(session.queue.front()).batch};
  const size_t devices = static_cast<size_t>(std::max(1, devices_of(device.key)));
  size_t share = std::clamp((session.queue.size() + devices - 1) / devices, size_t{1}, limits_.lease);
  if (lease.batch->together) share = lease.batch->ids.size();
  while (!session.queue.empty() && lease.jobs.size() < share) {
    Job& job = session.jobs.at(session.queue.front());
    if (job.batch != lease.batch || (job.losses > 0 && !lease.jobs.empty())) break;
    job.lease = lease.name;
    lease.jobs.push_back(session.queue.front());
    session.queue.pop_front();
    if (job.losses > 0) break;
  }
  lease.alone = lease.jobs.size() == 1;
  lease.progress_s = now_s;
  device.lease = std::move(lease);
}

void TrackerState::describe_lease(const Device& device, const std::string& workload_held, double now_s,
                                  wire::Work& work) const {
  const Lease& lease = *device.lease;
  const Session& session = sessions_.at(lease.session);
  work.set_lease(lease.name);
  work.set_session(lease.session);
  work.set_workload_id(lease.batch->workload_id);
  if (workload_held != lease.batch->workload_id)
    *work.mutable_workload() = *session.workloads.at(lease.batch->workload_id);
  *work.mutable_measure() = lease.batch->measure;
  if (lease.batch->measure.max_seconds() > 0)
    work.mutable_measure()->set_max_seconds(
        std::max(1e-3, lease.batch->measure.max_seconds() - (now_s - lease.batch->submitted_s)));
  for (const uint64_t id : lease.jobs) *work.add_jobs() = session.jobs.at(id).wire;
}

Result<wire::BeatReply> TrackerState::beat(const wire::BeatRequest& request, double now_s) {
  FETTLE_TRY_VOID(check_name(request.device()));
  for (const wire::Outcome& outcome : request.outcomes()) FETTLE_TRY_VOID(check(outcome));
  wire::BeatReply reply;
  const auto found = devices_.find(request.device());
  if (found == devices_.end()) return reply;
  Device& device = found->second;
  device.seen_s = keys_.at(device.key).seen_s = now_s;
  reply.set_known(true);
  for (const wire::Outcome& outcome : request.outcomes()) reply.add_kept(keep(device, request.lease(), outcome, now_s));
  reply.set_cancelled(!request.lease().empty() && (!device.lease || device.lease->name != request.lease()));
  if (request.leaving()) leave(request.device(), request.faulty());
  return reply;
}

// False: its session is not known. What comes late, of a lease that was given to others since, counts where it is a
// time: it was measured, after all.
bool TrackerState::keep(Device& device, const std::string& lease, wire::Outcome outcome, double now_s) {
  const auto found = sessions_.find(outcome.session());
  if (found == sessions_.end()) return false;
  Session& session = found->second;
  const auto entry = session.jobs.find(outcome.id());
  if (entry == session.jobs.end()) return true;  // it has its result
  Job& job = entry->second;
  if (outcome.message().size() > limits_.message_bytes) outcome.mutable_message()->resize(limits_.message_bytes);
  const bool current = device.lease && device.lease->name == lease && job.lease == lease;
  if (!current && (job.batch->together || !outcome.code().empty())) return true;
  ++device.done;
  ++keys_.at(session.key).done;
  if (current) {
    device.lease->progress_s = now_s;
    std::erase(device.lease->jobs, outcome.id());
  } else {
    std::erase(session.queue, outcome.id());
    for (auto& [name, other] : devices_)
      if (other.lease && other.lease->name == job.lease) {
        std::erase(other.lease->jobs, outcome.id());
        if (other.lease->jobs.empty()) other.lease.reset();
        break;
      }
  }
  if (!job.batch->together) {
    finish(session, outcome);
  } else {
    const std::shared_ptr<Batch> batch = job.batch;
    batch->held.push_back(std::move(outcome));
    if (batch->held.size() == batch->ids.size())
      for (const wire::Outcome& held : batch->held) finish(session, held);
  }
  if (device.lease && device.lease->jobs.empty()) device.lease.reset();
  return true;
}

void TrackerState::finish(Session& session, const wire::Outcome& outcome) {
  const auto job = session.jobs.find(outcome.id());
  if (job == session.jobs.end()) return;
  held_bytes_ -= job->second.wire.trace().size();
  session.jobs.erase(job);
  session.results.push_back(outcome);
  ++session.last;
}

// Those that were lost with their device go to the head of the line, one by one; what kills devices has had its
// chances.
void TrackerState::give_back(Device& device, bool lost) {
  if (!device.lease) return;
  const Lease lease = *std::exchange(device.lease, std::nullopt);
  const auto found = sessions_.find(lease.session);
  if (found == sessions_.end()) return;
  Session& session = found->second;
  std::vector<uint64_t> ids = lease.jobs;
  if (lease.batch->together) {
    lease.batch->held.clear();
    ids = lease.batch->ids;
    if (lost && ++lease.batch->losses >= kMaxLossesTogether) {
      for (const uint64_t id : ids)
        finish(session, failed(id, ErrorCode::E406, "the devices that measured it beside others were lost", false));
      return;
    }
  }
  keys_.at(device.key).requeued += static_cast<int64_t>(ids.size());
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    Job& job = session.jobs.at(*id);
    job.lease.clear();
    session.queue.push_front(*id);
    if (!lost || lease.batch->together) continue;
    ++job.losses;
    if (lease.alone) ++job.losses_alone;
    if (job.losses_alone >= kMaxLosses) blame(session, *id);
  }
}

void TrackerState::blame(Session& session, uint64_t id) {
  const Job& job = session.jobs.at(id);
  ++keys_.at(session.key).quarantined;
  const Digest digest = identity(session, job);
  if (quarantine_.insert(digest).second) quarantine_order_.push_back(digest);
  if (quarantine_order_.size() > limits_.quarantine) {
    quarantine_.erase(quarantine_order_.front());
    quarantine_order_.pop_front();
  }
  const int losses = job.losses;
  std::erase(session.queue, id);
  finish(session,
         failed(id, ErrorCode::E403, fmt::format("{} devices were lost while they measured it", losses), true));
}

Digest TrackerState::identity(const Session& session, const Job& job) const {
  return digest_bytes(session.key + "\n" + job.batch->workload_id + "\n" + job.wire.trace());
}

void TrackerState::leave(const std::string& device_name, bool lost) {
  Device& device = devices_.at(device_name);
  if (lost) ++keys_.at(device.key).lost_devices;
  give_back(device, lost);
  devices_.erase(device_name);
}

// --- tuners

Result<wire::OpenReply> TrackerState::open(const wire::OpenRequest& request, double now_s) {
  FETTLE_TRY_VOID(check_name(request.session()));
  if (request.protocol() != kRemoteProtocol) return fail(ErrorCode::E805, "the tuner speaks another protocol");
  if (!is_key(request.key())) return malformed("that is no device key");
  wire::OpenReply reply;
  const auto found = keys_.find(request.key());
  reply.set_devices(devices_of(request.key()));
  if (found == keys_.end()) return reply;
  const Key& key = found->second;
  if (key.machine.versions() != request.versions())
    return fail(
        ErrorCode::E805,
        fmt::format("the devices' Fettle is '{}', the tuner's '{}'", key.machine.versions(), request.versions()),
        request.key());
  if (!request.fingerprint().empty() && request.fingerprint() != key.fingerprint)
    return fail(ErrorCode::E805, "the devices have another processor, or other caches, than what is tuned for",
                request.key());
  if (!sessions_.contains(request.session()) && sessions_.size() >= limits_.sessions)
    return malformed("there are too many sessions");
  Session& session = sessions_[request.session()];
  if (!session.key.empty() && session.key != request.key()) return malformed("the session is for another key");
  session.key = request.key();
  session.seen_s = now_s;
  reply.set_available(true);
  *reply.mutable_machine() = key.machine;
  return reply;
}

Result<wire::SubmitReply> TrackerState::submit(const wire::SubmitRequest& request, double now_s) {
  FETTLE_TRY_VOID(check_name(request.session()));
  FETTLE_TRY_VOID(check(request.measure(), limits_));
  size_t bytes = 0;
  for (const wire::Job& job : request.jobs()) {
    FETTLE_TRY_VOID(check(job, limits_));
    bytes += job.trace().size();
  }
  wire::SubmitReply reply;
  const auto found = sessions_.find(request.session());
  if (found == sessions_.end()) return reply;
  Session& session = found->second;
  session.seen_s = now_s;
  reply.set_known(true);
  if (request.has_workload()) FETTLE_TRY_VOID(check(request.workload(), limits_));
  const size_t jobs = session.jobs.size() + session.results.size() + static_cast<size_t>(request.jobs_size());
  if (jobs > limits_.jobs) return malformed("there are too many candidates");
  if (held_bytes_ + bytes + static_cast<size_t>(bytes_of(request.workload())) > limits_.held_bytes)
    return malformed("the tracker holds as much as it may");
  if (request.has_workload()) {
    // What a device holds it knows by this name alone, so the name must say what it is.
    if (request.workload_id() != workload_name(request.workload())) return malformed("the workload has another name");
    remember_workload(session, request.workload_id(), request.workload());
  }
  if (!session.workloads.contains(request.workload_id())) return reply;
  reply.set_workload_known(true);
  const auto batch = std::make_shared<Batch>();
  batch->workload_id = request.workload_id();
  batch->measure = request.measure();
  batch->together = request.together();
  batch->submitted_s = now_s;
  for (const wire::Job& job : request.jobs())
    if (job.id() > session.taken) take(session, job, batch);
  return reply;
}

void TrackerState::remember_workload(Session& session, const std::string& id, const wire::Workload& workload) {
  if (session.workloads.contains(id)) return;
  held_bytes_ += static_cast<size_t>(bytes_of(workload));
  session.workloads[id] = std::make_shared<const wire::Workload>(workload);
  session.workload_order.push_back(id);
  for (size_t n = session.workload_order.size(); n > 0 && session.workloads.size() > limits_.workloads; --n) {
    const std::string oldest = session.workload_order.front();
    session.workload_order.pop_front();
    const bool used = oldest == id || std::any_of(session.jobs.begin(), session.jobs.end(), [&](const auto& entry) {
                        return entry.second.batch->workload_id == oldest;
                      });
    if (used) {
      session.workload_order.push_back(oldest);
      continue;
    }
    held_bytes_ -= static_cast<size_t>(bytes_of(*session.workloads.at(oldest)));
    session.workloads.erase(oldest);
  }
}

void TrackerState::take(Session& session, const wire::Job& wire, const std::shared_ptr<Batch>& batch) {
  session.taken = wire.id();
  held_bytes_ += wire.trace().size();
  const Job& job = session.jobs[wire.id()] = {wire, batch};
  if (batch->together) {
    batch->ids.push_back(wire.id());
  } else if (quarantine_.contains(identity(session, job))) {
    finish(session,
           failed(wire.id(), ErrorCode::E403, "it is in quarantine: devices were lost while they measured it", true));
    return;
  }
  session.queue.push_back(wire.id());
}

Result<wire::FetchReply> TrackerState::fetch(const wire::FetchRequest& request, double now_s, bool first) {
  FETTLE_TRY_VOID(check_name(request.session()));
  wire::FetchReply reply;
  const auto found = sessions_.find(request.session());
  if (found == sessions_.end()) return reply;
  reply.set_known(true);
  if (request.close()) {
    drop_session(request.session());
    return reply;
  }
  Session& session = found->second;
  if (first) session.seen_s = now_s;
  if (request.cancel()) {
    drop_jobs(request.session());
    session.results.clear();
  }
  while (!session.results.empty() && session.last - session.results.size() < request.have())
    session.results.pop_front();
  uint64_t number = session.last - session.results.size();
  size_t bytes = 0;
  for (const wire::Outcome& outcome : session.results) {
    if (bytes > kMaxSubmitBytes) break;
    bytes += outcome.ByteSizeLong();
    *reply.add_outcomes() = outcome;
    ++number;
  }
  reply.set_last(number);
  reply.set_devices(devices_of(session.key));
  return reply;
}

void TrackerState::drop_jobs(const std::string& session_name) {
  Session& session = sessions_.at(session_name);
  for (const auto& [id, job] : session.jobs) held_bytes_ -= job.wire.trace().size();
  session.jobs.clear();
  session.queue.clear();
  for (auto& [name, device] : devices_)
    if (device.lease && device.lease->session == session_name) device.lease.reset();
}

void TrackerState::drop_session(const std::string& session_name) {
  drop_jobs(session_name);
  for (const auto& [id, workload] : sessions_.at(session_name).workloads)
    held_bytes_ -= static_cast<size_t>(bytes_of(*workload));
  sessions_.erase(session_name);
}

// --- people, and time

wire::QueryReply TrackerState::query(double now_s) {
  wire::QueryReply reply;
  if (!start_s_) start_s_ = now_s;
  reply.set_up_s(now_s - *start_s_);
  for (const auto& [name, key] : keys_) {
    wire::KeyState& state = *reply.add_keys();
    state.set_key(name);
    *state.mutable_machine() = key.machine;
    state.mutable_machine()->clear_micro_kernels();
    state.set_done(key.done);
    state.set_requeued(key.requeued);
    state.set_lost_devices(key.lost_devices);
    state.set_quarantined(key.quarantined);
    for (const auto& [id, device] : devices_) {
      if (device.key != name) continue;
      wire::DeviceState& one = *state.add_devices();
      one.set_name(device.name);
      one.set_state(device.lease ? "measuring" : "idle");
      one.set_done(device.done);
      one.set_seen_s(std::max(0.0, now_s - device.seen_s));
      state.set_measuring(state.measuring() +
                          (device.lease ? static_cast<int64_t>(device.lease->jobs.size()) : int64_t{0}));
    }
    for (const auto& [id, session] : sessions_) {
      if (session.key != name) continue;
      state.set_sessions(state.sessions() + 1);
      state.set_queued(state.queued() + static_cast<int64_t>(session.queue.size()));
    }
  }
  return reply;
}

bool TrackerState::tick(double now_s) {
  if (!start_s_) start_s_ = now_s;
  std::vector<std::string> lost, over;
  for (const auto& [name, device] : devices_) {
    const bool stalled = device.lease && now_s - device.lease->progress_s > times_.stall_s;
    if (stalled || now_s - device.seen_s > times_.silence_s) lost.push_back(name);
  }
  for (const auto& [name, session] : sessions_)
    if (now_s - session.seen_s > times_.session_s) over.push_back(name);
  for (const std::string& name : lost) leave(name, true);
  for (const std::string& name : over) drop_session(name);
  std::erase_if(keys_, [&](const auto& entry) {
    return now_s - entry.second.seen_s > times_.remember_s && devices_of(entry.first) == 0 &&
           std::none_of(sessions_.begin(), sessions_.end(),
                        [&](const auto& session) { return session.second.key == entry.first; });
  });
  return !lost.empty() || !over.empty();
}

}  // namespace fettle
