#include "measure/local_measurer.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

#include "ir/text.h"
#include "measure/object_cache.h"
#include "measure/worker_process.h"

namespace fettle {
namespace {

using Json = nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Beyond what the worker allows the candidate: a worker that is this late is stuck itself.
constexpr double kGraceSeconds = 15;
constexpr double kReferenceSeconds = 150;
constexpr double kWorkloadSeconds = 20;
/// For a candidate whose worker is lost through no fault of its own.
constexpr int kAttempts = 2;

std::filesystem::path default_worker_path() {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? "fettle-worker" : self.parent_path() / "fettle-worker";
}

Json to_json(const TimingOptions& t, double incumbent_s) {
  return {{"incumbent_s", incumbent_s},   {"target_half_width", t.target_half_width},
          {"batch_s", t.batch_s},         {"min_samples", t.min_samples},
          {"max_samples", t.max_samples}, {"max_seconds", t.max_seconds}};
}

ErrorCode code_in(const Json& reply) {
  const ErrorInfo* info = find_error(reply.value("code", ""));
  return info ? info->code : ErrorCode::E406;
}

std::string message_in(const Json& reply) {
  const std::string where = reply.value("where", ""), message = reply.value("message", "");
  return where.empty() ? message : fmt::format("{} ({})", message, where);
}

}  // namespace

struct MeasurerState {
  struct Worker {
    WorkerProcess process;
    int64_t workload = -1;  // number of the workload that it knows
    int candidates = 0;     // that it has built
    bool started = false;   // this one, or one before it
  };

  LocalMeasurerOptions options;
  std::string target_json;
  std::vector<Worker> workers;
  int64_t workload = 0;  // its number
  Json workload_message;
  std::map<ErrorCode, int64_t> failures;
  int64_t restarts = 0;
  int64_t next_id = 0;

  Result<> start(Worker& worker) {
    const bool again = std::exchange(worker.started, true);
    if (again) ++restarts;
    worker = Worker{.started = true};
    FETTLE_TRY(worker.process,
               WorkerProcess::start(options.worker_path, again ? std::vector<std::string>() : options.worker_args));
    return {};
  }

  /// One request and its reply. E406 where the worker is lost; then it has been ended, and the message says how.
  Result<Json> ask(Worker& worker, const Json& request, double timeout_s) {
    FETTLE_TRY_VOID(send(worker, request));
    return receive(worker, in_seconds(timeout_s), timeout_s);
  }
  Result<> send(Worker& worker, const Json& request) {
    auto sent = worker.process.channel().send(request.dump(), in_seconds(kWorkloadSeconds));
    if (!sent) return lost(worker, "");
    return {};
  }
  Result<Json> receive(Worker& worker, Deadline deadline, double timeout_s) {
    auto text = worker.process.channel().receive(deadline);
    if (!text) {
      const bool late = text.error().message == "late";
      return lost(worker, late ? fmt::format("no answer within {:.3g} s", timeout_s) : text.error().message);
    }
    Json reply = Json::parse(*text, nullptr, false);
    if (!reply.is_object() || !reply.contains("ok")) return lost(worker, "it sent what is no message");
    return reply;
  }
  tl::unexpected<Diagnostic> lost(Worker& worker, const std::string& why) {
    const std::string how = worker.process.end(why.empty() ? 0.5 : 0);
    return fail(ErrorCode::E406, fmt::format("the worker was lost: {}", why.empty() ? how : why));
  }

  /// A running worker that knows the workload. E406; E1xx, E7xx where the workload itself is refused.
  Result<> ready(Worker& worker) {
    for (int attempt = 1;; ++attempt) {
      if (!worker.process.is_running()) FETTLE_TRY_VOID(start(worker));
      if (worker.workload == workload) return {};
      auto reply = ask(worker, workload_message, kWorkloadSeconds);
      if (!reply && attempt < kAttempts) continue;
      if (!reply) return fail(std::move(reply.error()));
      if (!reply->value("ok", false)) return fail(code_in(*reply), message_in(*reply));
      worker.workload = workload;
      return {};
    }
  }

  double timeout_s(double incumbent_s) const {
    if (incumbent_s <= 0) return options.first_timeout_s;
    return std::max(options.min_timeout_s, options.timeout_factor * incumbent_s);
  }
};

namespace {

/// A candidate on its way through a batch.
struct Job {
  size_t index = 0;
  int64_t id = 0;
  int worker = -1;  // that has built it
  int attempts = 0;
};

/// A batch: everything that measure() keeps between its phases.
class Batch {
 public:
  using State = MeasurerState;
  using Worker = State::Worker;

  Batch(State& state, std::span<const std::string> traces, const MeasureRequest& request)
      : state_(state), traces_(traces), request_(request), results_(traces.size()), incumbent_s_(request.incumbent_s) {
    for (size_t i = 0; i < traces.size(); ++i) jobs_.push_back({i, state.next_id++});
  }

  Result<std::vector<MeasureResult>> run() {
    for (Worker& worker : state_.workers)
      if (worker.candidates >= state_.options.recycle_after) FETTLE_TRY_VOID(state_.start(worker));
    FETTLE_TRY_VOID(build_all());
    for (Job& job : jobs_) {
      MeasureResult& result = results_[job.index];
      if (result.ok()) FETTLE_TRY_VOID(measure(job));
      if (!result.ok()) ++state_.failures[result.error];
      if (request_.on_result) request_.on_result(job.index, result);
    }
    return std::move(results_);
  }

 private:
  bool stopped() { return stopped_ = stopped_ || (request_.should_stop && request_.should_stop()); }

  void set_failure(Job& job, ErrorCode code, std::string message, int signal = 0) {
    MeasureResult& result = results_[job.index];
    result.error = code;
    result.message = std::move(message);
    result.signal = signal;
  }

  Json build_message(const Job& job) const {
    return {
        {"do", "build"}, {"id", job.id}, {"trace", traces_[job.index]}, {"limit_s", state_.options.build_timeout_s}};
  }

  // Takes a worker's answer to build_message, or its loss.
  void built(Job& job, int worker, const Result<Json>& reply) {
    ++state_.workers[static_cast<size_t>(worker)].candidates;
    if (!reply) return set_failure(job, ErrorCode::E401, reply.error().message);
    if (!reply->value("ok", false)) return set_failure(job, code_in(*reply), message_in(*reply));
    results_[job.index].build_s = reply->value("build_s", 0.0);
    job.worker = worker;
  }

  Result<> build_all() {
    const size_t n = state_.workers.size();
    std::vector<Job*> busy(n, nullptr);
    std::vector<Clock::time_point> due(n);
    size_t next = 0;
    // A lost worker has lost what it had built; those are built again.
    std::deque<Job*> again;
    const auto lose_builds = [&](int worker) {
      for (Job& job : jobs_)
        if (job.worker == worker) {
          job.worker = -1;
          again.push_back(&job);
        }
    };
    for (;;) {
      for (size_t w = 0; w < n; ++w) {
        while (!busy[w]) {
          Job* job = nullptr;
          if (!again.empty()) {
            job = again.front();
            again.pop_front();
          } else if (next < jobs_.size()) {
            job = &jobs_[next++];
          }
          if (!job) break;
          if (stopped()) {
            set_failure(*job, ErrorCode::E407, "stopped before it was built");
            continue;
          }
          Worker& worker = state_.workers[w];
          FETTLE_TRY_VOID(state_.ready(worker));
          if (auto sent = state_.send(worker, build_message(*job)); !sent) {
            // The worker had ended before it saw this candidate, which is not to blame.
            lose_builds(static_cast<int>(w));
            if (++job->attempts < kAttempts)
              again.push_back(job);
            else
              set_failure(*job, ErrorCode::E406, sent.error().message);
            continue;
          }
          busy[w] = job;
          due[w] = Clock::now() + std::chrono::milliseconds(static_cast<int64_t>(state_.options.build_timeout_s * 1e3));
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
  Result<> rebuild(Job& job, int w) {
    Worker& worker = state_.workers[static_cast<size_t>(w)];
    FETTLE_TRY_VOID(state_.ready(worker));
    built(job, w, state_.ask(worker, build_message(job), state_.options.build_timeout_s));
    return {};
  }

  Result<> measure(Job& job) {
    MeasureResult& result = results_[job.index];
    if (stopped()) {
      set_failure(job, ErrorCode::E407, "stopped before it was run");
      return {};
    }
    const int w = std::max(job.worker, 0);
    Worker& worker = state_.workers[static_cast<size_t>(w)];
    if (job.worker < 0 || !worker.process.is_running() || worker.workload != state_.workload) {
      FETTLE_TRY_VOID(rebuild(job, w));
      if (!result.ok()) return {};
    }
    const double timeout_s = state_.timeout_s(incumbent_s_);
    const Json message = {{"do", "measure"},
                          {"id", job.id},
                          {"threads", state_.options.threads},
                          {"time", to_json(request_.timing, incumbent_s_)},
                          {"timeout_s", timeout_s},
                          {"memory_bytes", state_.options.memory_bytes},
                          {"check", request_.check}};
    const double patience_s = timeout_s + kGraceSeconds + (request_.check ? kReferenceSeconds : 0);
    auto reply = state_.ask(worker, message, patience_s);
    if (!reply) {
      // The worker's own failure: the candidate gets one more chance with a new one.
      job.worker = -1;
      if (++job.attempts < kAttempts) return measure(job);
      set_failure(job, ErrorCode::E406, reply.error().message);
      return {};
    }
    if (!reply->value("ok", false)) {
      set_failure(job, code_in(*reply), message_in(*reply), reply->value("signal", 0));
      return {};
    }
    result.median_s = reply->value("median_s", 0.0);
    result.min_s = reply->value("min_s", 0.0);
    result.half_width = reply->value("half_width", 0.0);
    result.repeats = reply->value("repeats", int64_t{0});
    result.raced_out = reply->value("raced_out", false);
    result.checked = reply->value("checked", false);
    result.run_s = reply->value("run_s", 0.0);
    if (!result.raced_out && (incumbent_s_ <= 0 || result.median_s < incumbent_s_)) incumbent_s_ = result.median_s;
    return {};
  }

  State& state_;
  std::span<const std::string> traces_;
  const MeasureRequest& request_;
  std::vector<Job> jobs_;
  std::vector<MeasureResult> results_;
  double incumbent_s_;
  bool stopped_ = false;
};

}  // namespace

LocalMeasurer::LocalMeasurer(std::unique_ptr<MeasurerState> state) : state_(std::move(state)) {}
LocalMeasurer::~LocalMeasurer() = default;

Result<std::unique_ptr<LocalMeasurer>> LocalMeasurer::start(LocalMeasurerOptions options) {
  auto state = std::make_unique<MeasurerState>();
  if (options.worker_path.empty()) options.worker_path = default_worker_path();
  if (options.workers <= 0) options.workers = std::clamp(available_threads(), 1, 8);
  if (!options.cache_folder) {
    options.cache_folder = default_cache_folder();
    if (!options.cache_folder->empty()) *options.cache_folder /= "objects";
  }
  state->workers.resize(static_cast<size_t>(options.workers));
  state->options = std::move(options);
  for (MeasurerState::Worker& worker : state->workers) FETTLE_TRY_VOID(state->start(worker));
  return std::unique_ptr<LocalMeasurer>(new LocalMeasurer(std::move(state)));
}

Result<> LocalMeasurer::set_workload(const Func& workload, const WorkloadOptions& options) {
  MeasurerState& s = *state_;
  ++s.workload;
  s.workload_message = {{"do", "workload"},
                        {"func", to_text(workload)},
                        {"target", Json::parse(target_to_json(s.options.target))},
                        {"cache", s.options.cache_folder->string()},
                        {"seed", options.seed},
                        {"ints", options.ints},
                        {"reference_trace", options.reference_trace}};
  return s.ready(s.workers.front());
}

Result<std::vector<MeasureResult>> LocalMeasurer::measure(std::span<const std::string> traces,
                                                          const MeasureRequest& request) {
  if (state_->workload_message.is_null()) return fail(ErrorCode::E406, "no workload was given");
  return Batch(*state_, traces, request).run();
}

const std::map<ErrorCode, int64_t>& LocalMeasurer::failures() const { return state_->failures; }

std::vector<int> LocalMeasurer::worker_pids() const {
  std::vector<int> pids;
  for (const MeasurerState::Worker& worker : state_->workers)
    if (worker.process.is_running()) pids.push_back(worker.process.pid());
  return pids;
}

int64_t LocalMeasurer::restarts() const { return state_->restarts; }

}  // namespace fettle
