#include "measure/batch.h"

#include <poll.h>

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "measure/json.h"
#include "measure/measurer_state.h"

namespace fettle {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Beyond what the worker allows the candidate: a worker that is this late is stuck itself.
constexpr double kGraceSeconds = 15;
constexpr double kReferenceSeconds = 150;
/// A device is opened, and a driver may have to compile a kernel.
constexpr double kDeviceSeconds = 60;
/// So long after the end of the time for all of them, a worker that has not answered is ended.
constexpr double kEndSeconds = 1;
/// A first run may have to pack constants, which is not held against it.
constexpr double kPrologueSeconds = 10;
/// For a candidate whose worker is lost.
constexpr int kAttempts = 2;

/// A distinct trace.
struct Build {
  const std::string* trace = nullptr;
  int64_t id = 0;
  int runs_left = 0;
  int worker = -1;  // that has it
  int attempts = 0;
  MeasureResult result;  // of building
};

/// One run.
struct Job {
  size_t build = 0;
  int attempts = 0;
};

class Batch {
 public:
  using State = MeasurerState;
  using Worker = State::Worker;

  Batch(State& state, std::span<const std::string> traces, const MeasureRequest& request)
      : state_(state), request_(request), first_id_(state.next_id), incumbent_s_(request.incumbent_s) {
    if (request.max_seconds < 1e6) deadline_ = in_seconds(request.max_seconds);
    std::unordered_map<std::string_view, size_t> known;
    for (const std::string& trace : traces) {
      const auto [found, fresh] = known.emplace(trace, builds_.size());
      if (fresh) builds_.push_back({.trace = &trace, .id = state.next_id++});
      ++builds_[found->second].runs_left;
      jobs_.push_back({found->second});
    }
  }

  Result<std::vector<MeasureResult>> run() {
    FETTLE_TRY_VOID(state_.recycle());
    FETTLE_TRY_VOID(build_all());
    std::vector<MeasureResult> results;
    results.reserve(jobs_.size());
    for (Job& job : jobs_) {
      FETTLE_TRY(MeasureResult result, measure(job));
      if (!result.ok()) ++state_.failures[result.error];
      if (request_.on_result) request_.on_result(results.size(), result);
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  double left_s() const { return deadline_ ? std::chrono::duration<double>(*deadline_ - Clock::now()).count() : 1e9; }
  bool stopped() { return stopped_ = stopped_ || left_s() <= 0 || (request_.should_stop && request_.should_stop()); }

  static MeasureResult failure(ErrorCode code, std::string message, int signal = 0) {
    MeasureResult result;
    result.error = code;
    result.message = std::move(message);
    result.signal = signal;
    return result;
  }
  static MeasureResult not_reached() { return failure(ErrorCode::E407, "stopped before it was done"); }

  Json build_message(const Build& build) const {
    return {{"do", "build"},
            {"id", build.id},
            {"first_id", first_id_},
            {"trace", *build.trace},
            {"limit_s", state_.options.build_timeout_s}};
  }

  // Takes a worker's answer to build_message, or its loss.
  void built(Build& build, int worker, const Result<Json>& reply) {
    ++state_.workers[static_cast<size_t>(worker)].candidates;
    if (!reply) {
      build.result = left_s() <= 0 ? not_reached() : failure(ErrorCode::E401, reply.error().message);
      build.result.lost_worker = build.result.error == ErrorCode::E401;
    } else if (!reply->value("ok", false)) {
      build.result = failure(code_in(*reply), message_in(*reply));
    } else {
      build.result.build_s = reply->value("build_s", 0.0);
      build.worker = worker;
    }
  }

  // A lost worker has lost what it had built; those are built again.
  void lose_builds(int worker) {
    for (Build& build : builds_)
      if (build.worker == worker) {
        build.worker = -1;
        again_.push_back(&build);
      }
  }

  Build* next_build() {
    if (!again_.empty()) {
      Build* build = again_.front();
      again_.pop_front();
      return build;
    }
    return next_ < builds_.size() ? &builds_[next_++] : nullptr;
  }

  Result<> build_all() {
    // Results are compared with one worker's reference, which is costly to make.
    const size_t n = request_.check ? 1 : state_.workers.size();
    std::vector<Build*> busy(n, nullptr);
    std::vector<Clock::time_point> due(n);
    for (;;) {
      for (size_t w = 0; w < n; ++w) {
        while (!busy[w]) {
          Build* build = next_build();
          if (!build) break;
          if (stopped()) {
            build->result = not_reached();
            continue;
          }
          Worker& worker = state_.workers[w];
          FETTLE_TRY_VOID(state_.ready(worker));
          if (auto sent = state_.send(worker, build_message(*build)); !sent) {
            // The worker had ended before it saw this candidate, which is not to blame.
            lose_builds(static_cast<int>(w));
            if (++build->attempts < kAttempts)
              again_.push_back(build);
            else
              build->result = failure(ErrorCode::E406, sent.error().message);
            continue;
          }
          busy[w] = build;
          due[w] = *in_seconds(state_.options.build_timeout_s);
          if (deadline_) due[w] = std::min(due[w], *deadline_);
        }
      }
      std::vector<pollfd> fds;
      std::vector<size_t> whose;
      auto first_due = Clock::time_point::max();
      for (size_t w = 0; w < n; ++w) {
        if (!busy[w]) continue;
        fds.push_back({state_.workers[w].process.channel().fd(), POLLIN, 0});
        whose.push_back(w);
        first_due = std::min(first_due, due[w]);
      }
      if (fds.empty()) return {};
      const double left_ms = std::chrono::duration<double, std::milli>(first_due - Clock::now()).count();
      (void)::poll(fds.data(), fds.size(), static_cast<int>(std::clamp(left_ms + 1, 0.0, 1e6)));
      for (size_t f = 0; f < fds.size(); ++f) {
        const size_t w = whose[f];
        if (fds[f].revents == 0 && Clock::now() < due[w]) continue;
        auto reply = state_.receive(state_.workers[w], due[w], state_.options.build_timeout_s);
        if (!reply) lose_builds(static_cast<int>(w));
        built(*std::exchange(busy[w], nullptr), static_cast<int>(w), reply);
      }
    }
  }

  // Builds it again, on the worker that lost it.
  Result<> rebuild(Build& build, int w) {
    Worker& worker = state_.workers[static_cast<size_t>(w)];
    FETTLE_TRY_VOID(state_.ready(worker));
    const double limit_s = std::min(state_.options.build_timeout_s, left_s());
    built(build, w, state_.ask(worker, build_message(build), limit_s));
    return {};
  }

  Result<MeasureResult> measure(Job& job) {
    Build& build = builds_[job.build];
    --build.runs_left;
    for (;;) {
      if (!build.result.ok()) return build.result;
      if (stopped()) return not_reached();
      const int w = std::max(build.worker, 0);
      Worker& worker = state_.workers[static_cast<size_t>(w)];
      if (build.worker < 0 || !worker.process.is_running() || worker.workload != state_.workload) {
        FETTLE_TRY_VOID(rebuild(build, w));
        continue;
      }
      auto reply = run_once(build, worker, incumbent_s_, request_.check);
      if (reply && is_new_best(*reply)) {
        if (request_.confirm_best || reply->beside) FETTLE_TRY_VOID(confirm(build, *reply));
        if (is_new_best(*reply)) incumbent_s_ = reply->median_s;
      }
      if (reply) return *reply;
      // The worker itself was lost: the candidate gets one more chance with a new one, then it is to blame.
      build.worker = -1;
      if (++job.attempts < kAttempts) continue;
      MeasureResult killer = failure(ErrorCode::E403, "it took its worker along, twice: " + reply.error().message);
      killer.lost_worker = true;
      return killer;
    }
  }

  bool is_new_best(const MeasureResult& result) const {
    return request_.race && result.ok() && !result.raced_out && (incumbent_s_ <= 0 || result.median_s < incumbent_s_);
  }

  // Another worker has its own buffers, and the kernel's outputs and scratch memory are new in any case. A worker that
  // is lost says nothing about the candidate.
  Result<> confirm(const Build& build, MeasureResult& result) {
    if (stopped()) return {};
    const int w = (build.worker + 1) % static_cast<int>(state_.workers.size());
    Build again{.trace = build.trace, .id = state_.next_id++};
    FETTLE_TRY_VOID(rebuild(again, w));
    if (!again.result.ok()) return {};
    const auto second = run_once(again, state_.workers[static_cast<size_t>(w)], 0, false);
    if (!second || second->error == ErrorCode::E407) return {};
    const bool checked = result.checked;
    const int64_t repeats = result.repeats;
    const double run_s = result.run_s;
    if (!second->ok() || second->median_s > result.median_s) result = *second;
    result.checked = checked && result.ok();
    if (result.ok()) result.repeats = repeats + second->repeats;
    result.run_s = run_s + second->run_s;
    return {};
  }

  // E406: the worker is lost. What is plainly slower than `incumbent_s`, if there is one, is raced out.
  Result<MeasureResult> run_once(const Build& build, Worker& worker, double incumbent_s, bool check) {
    const double own_limit_s = state_.timeout_s(incumbent_s), left = left_s();
    const bool beside = !check && request_.beside_s > 0 && !request_.beside_trace.empty();
    if (!request_.race) incumbent_s = 0;
    const double limit_s = std::min(own_limit_s, left);
    TimingOptions timing = request_.timing;
    timing.incumbent_s = incumbent_s;
    timing.reference_s = request_.beside_s;
    timing.max_seconds = std::min(timing.max_seconds, left);
    const Json message = {{"do", "measure"},
                          {"id", build.id},
                          {"keep", build.runs_left > 0},
                          {"threads", state_.options.threads},
                          {"time", timing},
                          {"beside", beside ? request_.beside_trace : std::string()},
                          {"timeout_s", limit_s},
                          {"prologue_s", std::min(kPrologueSeconds, left)},
                          {"memory_bytes", state_.options.memory_bytes},
                          {"check", check}};
    const double patience_s = std::min(limit_s + kGraceSeconds + (check ? kReferenceSeconds : 0) +
                                           (state_.options.target.has_threads() ? kDeviceSeconds : 0),
                                       std::max(left, 0.0) + kEndSeconds);
    FETTLE_TRY(const Json reply, state_.ask(worker, message, patience_s));
    if (!reply.value("ok", false)) {
      const ErrorCode code = code_in(reply);
      // Cut short by the end of the time for all of them, not by its own limit.
      if (code == ErrorCode::E402 && limit_s < own_limit_s) return not_reached();
      return failure(code, message_in(reply), reply.value("signal", 0));
    }
    MeasureResult result = build.result;
    result.median_s = reply.value("median_s", 0.0);
    result.min_s = reply.value("min_s", 0.0);
    result.half_width = reply.value("half_width", 0.0);
    result.repeats = reply.value("repeats", int64_t{0});
    result.raced_out = reply.value("raced_out", false);
    result.checked = reply.value("checked", false);
    result.beside = reply.value("beside", false);
    result.pace = reply.value("pace", 1.0);
    result.run_s = reply.value("run_s", 0.0);
    return result;
  }

  State& state_;
  const MeasureRequest& request_;
  int64_t first_id_;
  Deadline deadline_;
  std::vector<Build> builds_;
  std::vector<Job> jobs_;
  size_t next_ = 0;           // to be built
  std::deque<Build*> again_;  // to be built again
  double incumbent_s_;
  bool stopped_ = false;
};

}  // namespace

Result<std::vector<MeasureResult>> measure_batch(MeasurerState& state, std::span<const std::string> traces,
                                                 const MeasureRequest& request) {
  return Batch(state, traces, request).run();
}

}  // namespace fettle
