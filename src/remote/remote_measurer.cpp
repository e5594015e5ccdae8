#include "remote/remote_measurer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "codegen/build.h"
#include "ir/text.h"
#include "measure/protocol.h"
#include "remote/messages.h"
#include "remote/tracker_client.h"

namespace fettle {
namespace {

using Clock = std::chrono::steady_clock;

/// A call that waits for results comes back so often, to see whether there is still time.
constexpr double kFetchSeconds = 0.25;
constexpr double kRetrySeconds = 0.2;
/// Candidates of a call that are given to the tracker at once.
constexpr int kAtOnce = 2048;

}  // namespace

struct RemoteSession {
  explicit RemoteSession(RemoteMeasurerOptions given)
      : options(std::move(given)), client(options.tracker, options.credentials), session(draw_name()) {}

  RemoteMeasurerOptions options;
  TrackerClient client;
  std::string session;
  Target target;
  int threads = 1;
  std::vector<double> micro_kernels;
  wire::Workload workload;
  std::string workload_id;
  uint64_t last_job = 0;
  uint64_t have = 0;  // number of the last result, as this tracker counts
  std::map<ErrorCode, int64_t> failures;
  std::optional<Clock::time_point> silent_since;  // the first call that failed, after those that did not

  bool stopped() const { return options.stop && *options.stop; }

  /// A call failed: another try may do. Errors: the call's, where none will, or where it was tried for long enough.
  Result<> not_heard(const Diagnostic& error) {
    if (!silent_since) silent_since = Clock::now();
    if (error.code != ErrorCode::E801 || stopped() || seconds_since(*silent_since) > options.tracker_wait_s)
      return fail(error);
    std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
    return {};
  }

  /// (Re-)introduces the session. False: the key has no device. Errors: of the call.
  Result<bool> open(wire::OpenReply* reply) {
    wire::OpenRequest request;
    request.set_protocol(kRemoteProtocol);
    request.set_session(session);
    request.set_key(options.key);
    request.set_versions(program_versions());
    request.set_fingerprint(options.fingerprint);
    FETTLE_TRY(*reply, client.open(request));
    silent_since.reset();
    have = 0;
    return reply->available();
  }
};

namespace {

/// One call of measure().
class Call {
 public:
  using State = RemoteSession;

  Call(State& state, std::span<const std::string> traces, const MeasureRequest& request)
      : s_(state), traces_(traces), request_(request), first_(state.last_job + 1), results_(traces.size()) {
    s_.last_job += traces.size();
    together_ = std::set<std::string_view>(traces.begin(), traces.end()).size() < traces.size();
  }

  Result<std::vector<MeasureResult>> run() {
    device_seen_ = Clock::now();
    while (n_done_ < results_.size()) {
      if (over()) break;
      auto turn = submitted_ ? fetch() : submit();
      if (!turn) {
        cancel();
        return fail(std::move(turn.error()));
      }
    }
    if (n_done_ < results_.size()) cancel();
    for (auto& result : results_) {
      if (result) continue;
      result.emplace();
      result->error = ErrorCode::E407;
      result->message = "stopped before it was done";
    }
    hand_out();
    std::vector<MeasureResult> all;
    for (auto& result : results_) all.push_back(std::move(*result));
    return all;
  }

 private:
  double left_s() const { return request_.max_seconds - seconds_since(start_); }
  bool over() { return over_ = over_ || left_s() <= 0 || (request_.should_stop && request_.should_stop()); }

  // What has no result, in messages of moderate size; to a tracker that does not know the session, all of it again.
  // What it refuses it gets in smaller pieces, until it is clear which candidates it does not take.
  Result<> submit() {
    wire::SubmitRequest submit;
    submit.set_session(s_.session);
    submit.set_workload_id(s_.workload_id);
    if (send_workload_) *submit.mutable_workload() = s_.workload;
    MeasureRequest asked = request_;
    asked.max_seconds = left_s();
    if (best_s_ > 0 && (asked.incumbent_s <= 0 || best_s_ < asked.incumbent_s)) asked.incumbent_s = best_s_;
    *submit.mutable_measure() = to_wire(asked);
    submit.set_together(together_);
    size_t bytes = 0, i = next_;
    for (; i < traces_.size(); ++i) {
      if (results_[i]) continue;
      const bool full = submit.jobs_size() == n_at_once_ || bytes + traces_[i].size() > kMaxSubmitBytes;
      if (submit.jobs_size() > 0 && !together_ && full) break;
      bytes += traces_[i].size();
      wire::Job& job = *submit.add_jobs();
      job.set_id(first_ + i);
      job.set_trace(traces_[i]);
    }
    const auto reply = s_.client.submit(submit);
    if (!reply && reply.error().code == ErrorCode::E803 && submit.jobs_size() > 0) {
      s_.silent_since.reset();
      if (submit.jobs_size() == 1 || together_)
        refused(submit, reply.error());
      else
        n_at_once_ = submit.jobs_size() / 2;
      return {};
    }
    if (!reply) return s_.not_heard(reply.error());
    s_.silent_since.reset();
    if (!reply->known()) return open();
    if (!reply->workload_known()) {
      if (send_workload_) return fail(ErrorCode::E803, "the tracker does not take the workload");
      send_workload_ = true;
      return {};
    }
    send_workload_ = false;
    n_at_once_ = kAtOnce;
    submitted_up_to(i);
    return {};
  }

  void submitted_up_to(size_t i) {
    next_ = i;
    submitted_ = next_ == traces_.size();
  }

  // These the tracker does not take: it says nothing about them.
  void refused(const wire::SubmitRequest& submit, const Diagnostic& why) {
    size_t last = 0;
    for (const wire::Job& job : submit.jobs()) {
      last = job.id() - first_;
      results_[last].emplace();
      results_[last]->error = ErrorCode::E406;
      results_[last]->message = "refused: " + why.to_string();
      ++n_done_;
    }
    n_at_once_ = kAtOnce;
    submitted_up_to(last + 1);
    hand_out();
  }

  // The tracker was started anew, or took this side for dead.
  Result<> open() {
    submitted_ = false;
    next_ = 0;
    wire::OpenReply reply;
    const auto opened = s_.open(&reply);
    if (!opened) return s_.not_heard(opened.error());
    return *opened ? Result<>() : no_device();
  }

  Result<> no_device() {
    if (s_.stopped() || seconds_since(device_seen_) > s_.options.device_wait_s)
      return fail(ErrorCode::E804, fmt::format("none for {:.0f} s", seconds_since(device_seen_)), s_.options.key);
    std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
    return {};
  }

  Result<> fetch() {
    wire::FetchRequest fetch;
    fetch.set_session(s_.session);
    fetch.set_have(s_.have);
    fetch.set_wait_s(std::clamp(left_s(), 0.0, kFetchSeconds));
    const auto reply = s_.client.fetch(fetch);
    if (!reply) return s_.not_heard(reply.error());
    s_.silent_since.reset();
    if (!reply->known()) return open();
    for (const wire::Outcome& outcome : reply->outcomes()) FETTLE_TRY_VOID(take(outcome));
    s_.have = reply->last();
    hand_out();
    if (reply->devices() > 0) device_seen_ = Clock::now();
    return reply->devices() > 0 || reply->outcomes_size() > 0 ? Result<>() : no_device();
  }

  Result<> take(const wire::Outcome& outcome) {
    if (outcome.id() < first_ || outcome.id() - first_ >= results_.size()) return {};  // of a call that was cut short
    auto& result = results_[outcome.id() - first_];
    if (result) return {};
    result = from_wire(outcome);
    if (outcome.workload_refused()) return fail(result->error, result->message, "workload");
    ++n_done_;
    if (result->ok() && !result->raced_out && (best_s_ <= 0 || result->median_s < best_s_)) best_s_ = result->median_s;
    return {};
  }

  // In the order of the candidates.
  void hand_out() {
    for (; n_handed_out_ < results_.size() && results_[n_handed_out_]; ++n_handed_out_) {
      const MeasureResult& result = *results_[n_handed_out_];
      if (!result.ok()) ++s_.failures[result.error];
      if (request_.on_result) request_.on_result(n_handed_out_, result);
    }
  }

  void cancel() {
    wire::FetchRequest fetch;
    fetch.set_session(s_.session);
    fetch.set_have(s_.have);
    fetch.set_cancel(true);
    if (const auto reply = s_.client.fetch(fetch)) s_.have = reply->last();
  }

  State& s_;
  std::span<const std::string> traces_;
  const MeasureRequest& request_;
  const uint64_t first_;  // job of the first candidate
  std::vector<std::optional<MeasureResult>> results_;
  bool together_ = false, submitted_ = false, send_workload_ = false, over_ = false;
  size_t next_ = 0;  // to be submitted
  int n_at_once_ = kAtOnce;
  size_t n_done_ = 0, n_handed_out_ = 0;
  double best_s_ = 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point device_seen_;
};

}  // namespace

RemoteMeasurer::RemoteMeasurer(std::unique_ptr<RemoteSession> state) : state_(std::move(state)) {}

RemoteMeasurer::~RemoteMeasurer() {
  wire::FetchRequest fetch;
  fetch.set_session(state_->session);
  fetch.set_close(true);
  (void)state_->client.fetch(fetch);
}

Result<std::unique_ptr<RemoteMeasurer>> RemoteMeasurer::connect(RemoteMeasurerOptions options) {
  if (!is_key(options.key))
    return fail(ErrorCode::E709, "a device key has 1 to 64 letters, digits or any of '._-+'", options.key);
  auto state = std::make_unique<RemoteSession>(std::move(options));
  const auto start = Clock::now();
  wire::OpenReply reply;
  for (;;) {
    const auto opened = state->open(&reply);
    if (opened && *opened) break;
    if (!opened) {
      FETTLE_TRY_VOID(state->not_heard(opened.error()));
    } else {
      if (state->stopped() || seconds_since(start) > state->options.device_wait_s)
        return fail(ErrorCode::E804, fmt::format("the tracker at {} knows none", state->client.address()),
                    state->options.key);
      std::this_thread::sleep_for(std::chrono::duration<double>(kRetrySeconds));
    }
  }
  FETTLE_TRY_VOID(check(reply.machine(), TrackerLimits()));
  FETTLE_TRY(state->target, target_from_json(reply.machine().target()));
  state->threads = reply.machine().threads();
  state->micro_kernels.assign(reply.machine().micro_kernels().begin(), reply.machine().micro_kernels().end());
  // From now on they must stay what they are.
  state->options.fingerprint = state->target.fingerprint().hex();
  return std::unique_ptr<RemoteMeasurer>(new RemoteMeasurer(std::move(state)));
}

const Target& RemoteMeasurer::target() const { return state_->target; }
int RemoteMeasurer::threads() const { return state_->threads; }
const std::vector<double>& RemoteMeasurer::micro_kernels() const { return state_->micro_kernels; }

Result<> RemoteMeasurer::set_workload(const Func& workload, const WorkloadOptions& options) {
  wire::Workload w;
  w.set_func(to_text(workload));
  w.set_seed(options.seed);
  w.mutable_ints()->Add(options.ints.begin(), options.ints.end());
  w.set_reference_trace(options.reference_trace);
  FETTLE_TRY_VOID(check(w, TrackerLimits()));
  state_->workload_id = workload_name(w);
  state_->workload = std::move(w);
  return {};
}

Result<std::vector<MeasureResult>> RemoteMeasurer::measure(std::span<const std::string> traces,
                                                           const MeasureRequest& request) {
  if (state_->workload_id.empty()) return fail(ErrorCode::E406, "no workload was given");
  if (traces.size() <= size_t{kAtOnce}) return Call(*state_, traces, request).run();
  return fail(ErrorCode::E709, fmt::format("more than {} candidates at once", kAtOnce));
}

const std::map<ErrorCode, int64_t>& RemoteMeasurer::failures() const { return state_->failures; }

}  // namespace fettle
