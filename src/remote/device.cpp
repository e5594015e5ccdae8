#include "remote/device.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "codegen/build.h"
#include "ir/text.h"
#include "measure/protocol.h"
#include "remote/messages.h"
#include "remote/tracker_client.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

/// An idle device asks so often: one that is stopped while it asks may be given work that it never sees.
constexpr double kAskSeconds = 0.5;
/// For the session of a result to be known again, after a tracker was started anew.
constexpr double kKeepSeconds = 60;
constexpr double kFirstRetrySeconds = 0.2, kLastRetrySeconds = 2;
/// For the last word of a device that leaves.
constexpr double kLeaveSeconds = 5;
constexpr int kOutcomesAtOnce = 64;

void sleep_s(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

std::string own_name() {
  char host[65] = {};
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}:{}", host, ::getpid());
}

/// Speaks with the tracker while the runner measures: registers, says that the device lives, and delivers results.
class Link {
 public:
  explicit Link(const DeviceOptions& options) : options_(options), client_(options.tracker, options.credentials) {
    request_.set_protocol(kRemoteProtocol);
    request_.set_device(draw_name());
    request_.set_key(options.key);
    request_.set_name((options.name.empty() ? own_name() : options.name).substr(0, TrackerLimits().name_bytes));
    wire::Machine& machine = *request_.mutable_machine();
    machine.set_target(target_to_json(options.target));
    machine.set_threads(options.threads);
    machine.set_versions(program_versions());
    machine.mutable_micro_kernels()->Add(options.micro_kernels.begin(), options.micro_kernels.end());
  }
  ~Link() { join(); }

  /// Registers for the first time; a tracker that is not there yet is waited for.
  Result<> start() {
    for (double wait_s = kFirstRetrySeconds; !stopped(); wait_s = std::min(2 * wait_s, kLastRetrySeconds)) {
      auto done = enlist();
      if (done) break;
      FETTLE_TRY_VOID(not_heard(done.error()));
      sleep_s(wait_s);
    }
    thread_ = std::thread([this] { run(); });
    return {};
  }

  bool stopped() const { return options_.stop && *options_.stop; }
  const std::string& device() const { return request_.device(); }
  TrackerClient& client() { return client_; }

  void begin(const std::string& lease) {
    const std::lock_guard lock(mutex_);
    lease_ = lease;
    cancelled_ = false;
  }
  /// Nobody waits for the rest of the lease.
  bool cancelled() {
    const std::lock_guard lock(mutex_);
    return cancelled_ || failure_.code != ErrorCode::kNone;
  }
  void deliver(wire::Outcome outcome) {
    const std::lock_guard lock(mutex_);
    outbox_.push_back({std::move(outcome), lease_, Clock::now()});
    woken_.notify_all();
  }
  /// Waits until all was delivered, but for what the tracker turned down for now.
  void end() {
    std::unique_lock lock(mutex_);
    while (!all_tried() && failure_.code == ErrorCode::kNone && !stopped())
      woken_.wait_for(lock, std::chrono::milliseconds(200));
    lease_.clear();
  }
  Diagnostic failure() {
    const std::lock_guard lock(mutex_);
    return failure_;
  }
  /// The last word, with what there is to deliver.
  void leave(bool faulty) {
    join();
    const auto start = Clock::now();
    wire::BeatRequest beat = next_beat();
    beat.set_leaving(true);
    beat.set_faulty(faulty);
    while (!client_.beat(beat) && seconds_since(start) < kLeaveSeconds) sleep_s(kFirstRetrySeconds);
  }

  void heard() { silent_since_ = Clock::time_point(); }
  /// A call failed. Errors: the call's, where it makes no sense to repeat it, or no patience is left.
  Result<> not_heard(const Diagnostic& error) {
    say(error.to_string());
    if (silent_since_.load() == Clock::time_point()) silent_since_ = Clock::now();
    if (error.code == ErrorCode::E801 && seconds_since(silent_since_) <= options_.patience_s) return {};
    return fail(error);
  }

 private:
  struct Sent {
    wire::Outcome outcome;
    std::string lease;
    Clock::time_point since;
    bool turned_down = false;  // its session is not known
  };

  void join() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      woken_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  Result<> enlist() {
    FETTLE_TRY(const wire::RegisterReply reply, client_.enlist(request_));
    beat_s_ = std::clamp(reply.beat_s(), 0.01, 60.0);
    heard();
    say(fmt::format("offered as {} at {}", options_.key, client_.address()));
    return {};
  }

  // The same only once in a row.
  void say(const std::string& line) {
    const std::lock_guard lock(saying_);
    if (options_.say && line != said_) options_.say(line);
    said_ = line;
  }

  bool all_tried() const {
    return std::all_of(outbox_.begin(), outbox_.end(), [](const Sent& sent) { return sent.turned_down; });
  }

  // The results of one lease, those first that were not sent yet; took() finds them at the outbox's front.
  wire::BeatRequest next_beat() {
    std::stable_partition(outbox_.begin(), outbox_.end(), [](const Sent& sent) { return !sent.turned_down; });
    wire::BeatRequest beat;
    beat.set_device(request_.device());
    beat.set_lease(outbox_.empty() ? lease_ : outbox_.front().lease);
    for (const Sent& sent : outbox_) {
      if (sent.lease != beat.lease() || beat.outcomes_size() >= kOutcomesAtOnce) break;
      *beat.add_outcomes() = sent.outcome;
    }
    return beat;
  }

  void run() {
    double retry_s = kFirstRetrySeconds;
    std::unique_lock lock(mutex_);
    while (!ending_ && failure_.code == ErrorCode::kNone) {
      const wire::BeatRequest beat = next_beat();
      lock.unlock();
      const Result<wire::BeatReply> reply = client_.beat(beat);
      Result<> sound;
      if (!reply) {
        sound = not_heard(reply.error());
      } else {
        heard();
        if (!reply->known())
          if (auto again = enlist(); !again) sound = not_heard(again.error());
      }
      lock.lock();
      if (!sound) failure_ = sound.error();
      if (reply && reply->known()) {
        took(beat, *reply);
        retry_s = kFirstRetrySeconds;
        const double pause_s = outbox_.empty() ? beat_s_.load() : std::min(beat_s_.load(), kLastRetrySeconds);
        woken_.notify_all();
        woken_.wait_for(lock, std::chrono::duration<double>(pause_s), [&] { return ending_ || !all_tried(); });
      } else {
        woken_.notify_all();
        woken_.wait_for(lock, std::chrono::duration<double>(retry_s), [&] { return ending_; });
        retry_s = std::min(2 * retry_s, kLastRetrySeconds);
      }
    }
    woken_.notify_all();
  }

  void took(const wire::BeatRequest& beat, const wire::BeatReply& reply) {
    if (reply.cancelled() && beat.lease() == lease_) cancelled_ = true;
    for (int i = 0; i < beat.outcomes_size(); ++i) {
      Sent sent = std::move(outbox_.front());
      outbox_.pop_front();
      if ((i < reply.kept_size() && reply.kept(i)) || seconds_since(sent.since) > kKeepSeconds) continue;
      sent.turned_down = true;
      outbox_.push_back(std::move(sent));
    }
  }

  const DeviceOptions& options_;
  TrackerClient client_;
  wire::RegisterRequest request_;
  std::atomic<double> beat_s_ = 1;
  std::atomic<Clock::time_point> silent_since_ = Clock::time_point();  // calls fail since then; 0: they do not
  std::mutex saying_;
  std::string said_;
  std::mutex mutex_;  // of what follows
  std::condition_variable woken_;
  std::string lease_;
  bool cancelled_ = false, ending_ = false;
  std::deque<Sent> outbox_;
  Diagnostic failure_;
  std::thread thread_;
};

class Device {
 public:
  Device(Runner& runner, const DeviceOptions& options) : runner_(runner), options_(options), link_(options) {}

  Result<> serve() {
    FETTLE_TRY_VOID(link_.start());
    while (!link_.stopped()) {
      if (const Diagnostic failure = link_.failure(); failure.code != ErrorCode::kNone) return fail(failure);
      wire::NextRequest request;
      request.set_device(link_.device());
      request.set_workload(workload_);
      request.set_wait_s(kAskSeconds);
      const auto work = link_.client().next(request);
      if (!work) FETTLE_TRY_VOID(link_.not_heard(work.error()));
      if (work) link_.heard();
      if (!work || !work->known()) {
        // The link introduces the device again.
        sleep_s(kFirstRetrySeconds);
        continue;
      }
      if (work->lease().empty()) continue;
      if (auto done = measure(*work); !done) {
        link_.leave(true);
        return done;
      }
    }
    link_.leave(false);
    return {};
  }

 private:
  void deliver(const wire::Work& work, int job, wire::Outcome outcome) {
    const auto address = [&] {
      outcome.set_session(work.session());
      outcome.set_id(work.jobs(job).id());
    };
    address();
    if (!check(outcome)) {
      outcome = to_wire({.error = ErrorCode::E406, .message = "the device measured what is no time"});
      address();
    }
    link_.deliver(std::move(outcome));
  }

  // All candidates of the workload end so.
  void refuse(const wire::Work& work, const Diagnostic& why) {
    wire::Outcome outcome =
        to_wire({.error = why.code,
                 .message = why.where.empty() ? why.message : fmt::format("{} ({})", why.message, why.where)});
    outcome.set_workload_refused(true);
    for (int i = 0; i < work.jobs_size(); ++i) deliver(work, i, outcome);
  }

  // E406: the runner can measure nothing any more.
  Result<> measure(const wire::Work& work) {
    link_.begin(work.lease());
    if (work.workload_id() != workload_) {
      if (!work.has_workload()) return fail(ErrorCode::E803, "the tracker did not say what the workload is");
      workload_.clear();
      const Result<> set = set_workload(work.workload());
      if (!set && set.error().code == ErrorCode::E406) return set;
      if (!set) {
        refuse(work, set.error());
        link_.end();
        return {};
      }
      workload_ = work.workload_id();
    }
    std::vector<std::string> traces;
    for (const wire::Job& job : work.jobs()) traces.push_back(job.trace());
    MeasureRequest request = from_wire(work.measure());
    const auto over = [&] { return link_.stopped() || link_.cancelled(); };
    request.should_stop = over;
    request.on_result = [&](size_t i, const MeasureResult& result) {
      // What was not reached because nobody wants it, or because this device ends, is not reported: others may do it.
      if (result.error != ErrorCode::E407 || !over()) deliver(work, static_cast<int>(i), to_wire(result));
    };
    const auto results = runner_.measure(traces, request);
    if (!results && results.error().code == ErrorCode::E406) return fail(results.error());
    if (!results) refuse(work, results.error());
    if (options_.say && results) options_.say(fmt::format("{} candidates measured", results->size()));
    link_.end();
    return {};
  }

  Result<> set_workload(const wire::Workload& workload) {
    FETTLE_TRY(const Func func, parse_func(workload.func()));
    return runner_.set_workload(func, {.seed = workload.seed(),
                                       .ints = {workload.ints().begin(), workload.ints().end()},
                                       .reference_trace = workload.reference_trace()});
  }

  Runner& runner_;
  const DeviceOptions& options_;
  Link link_;
  std::string workload_;  // that the runner has
};

}  // namespace

Result<> serve_device(Runner& runner, const DeviceOptions& options) {
  if (!is_key(options.key))
    return fail(ErrorCode::E709, "a device key has 1 to 64 letters, digits or any of '._-+'", options.key);
  return Device(runner, options).serve();
}

}  // namespace fettle
