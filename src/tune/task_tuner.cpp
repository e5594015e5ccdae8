#include "tune/task_tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/predict/micro_kernel_table.h"
#include "measure/outcome.h"
#include "schedule/reformulation.h"
#include "tune/bound.h"
#include "tune/describe.h"
#include "tune/parts/winograd.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// So many results that cost a worker, if they are half of all, end the search.
constexpr int64_t kKillers = 4;
/// Known candidates of other runs that a search starts from.
constexpr size_t kWarmStart = 32;
/// A peak that was measured on a busy machine is too low; the bound must not be.
constexpr double kPeakMargin = 1.05;
/// Of one candidate, at most.
constexpr double kTimedCalls = 30, kTimedSeconds = 0.03;

double peak_flops(const TuneSession& session) {
  if (session.options.peak_flops > 0) return session.options.peak_flops;
  if (!session.options.micro_kernels) return 0;
  const MachineCosts& costs = session.options.micro_kernels->costs();
  return costs.hz * costs.fma_per_cycle * 2 * session.target->vector_lanes(4);
}

template <class Timed>
double usual_or_never(const Timed& r) {
  return r.ok() ? usual_seconds(r.median_s, r.min_s, r.half_width) : kInfinity;
}

}  // namespace

double usual_seconds(const MeasureResult& r) { return usual_or_never(r); }
double usual_seconds(const Record& r) { return usual_or_never(r); }

Result<> Learner::learn(std::span<const Observation> observations) {
  for (const Observation& o : observations) {
    const CandidateFeatures& features = o.candidate->features;
    if (features.values.empty() && features.rows.empty()) continue;  // not described
    features_.push_back(o.candidate->features);
    seconds_.push_back(o.seconds);
  }
  if (features_.size() < std::max<size_t>(1, each_batch_ ? 1 : trained_ / 4)) return {};
  trained_ += features_.size();
  const auto features = std::exchange(features_, {});
  const auto seconds = std::exchange(seconds_, {});
  return model_.update(features, seconds);
}

double TuneSession::elapsed_s() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Result<std::unique_ptr<TaskTuner>> TaskTuner::make(TuneSession& session, const TuneTask& task) {
  std::unique_ptr<TaskTuner> tuner(new TaskTuner(session, task));
  TaskTuner& t = *tuner;
  const TuneOptions& options = session.options;
  t.report_.label = task.label;
  t.key_ = make_task_key(task.workload, *session.target, session.threads, session.versions);
  const Space& space = options.space ? *options.space : rule_space();
  if (std::isfinite(options.max_error_bound)) t.space_ = within_error_bound(space, options.max_error_bound);
  t.bench_ = std::make_unique<Workbench>(
      t.space_ ? *t.space_ : space, task.workload, session.target, session.threads, session.learner.model(),
      options.describe ? options.describe : describe_corrected(session.target, session.threads, options.micro_kernels),
      options.search_threads);
  if (options.describe) t.bench_->describe_unpredicted_by(options.describe_unpredicted);
  FETTLE_TRY(const Schedule constructed, default_schedule(task.workload, session.target, session.threads,
                                                          options.micro_kernels, options.max_error_bound));
  t.default_ = t.bench_->add(constructed);
  if (!t.default_) return fail(ErrorCode::E401, "its default has no lowering", task.label);
  t.predicted_s_ = t.bench_->predict(std::span(&t.default_, 1)).front();
  if (const double peak = peak_flops(session); peak > 0)
    t.bound_s_ = needed_flops(task.workload) * least_share_of_products(task.workload, options.max_error_bound) /
                 (kPeakMargin * peak * session.threads);
  t.report_.default_trace = t.report_.best_trace = t.bench_->trace(*t.default_);
  t.reference_trace_ = t.report_.default_trace;
  if (error_bound_of(constructed.func()) > 0) {
    FETTLE_TRY(const Schedule as_written,
               default_schedule(task.workload, session.target, session.threads, options.micro_kernels, 0));
    t.reference_trace_ = to_text(as_written.trace());
  }
  t.report_.best_decisions = t.default_->decisions;
  FETTLE_TRY_VOID(t.read_records());
  return tuner;
}

Result<> TaskTuner::read_records() {
  FETTLE_TRY(const std::vector<Record> records, session_.database.records(key_));
  for (const Record& record : records) {
    if (record.pace != 1) paces_.push_back(record.pace);
    Recorded& known = records_[record.trace];
    if (record.generation == kCheckGeneration) {
      known.checked = true;
      known.wrong = known.wrong || !record.ok();
    } else if (record.generation == kConfirmationGeneration) {
      known.confirmed_s.push_back(usual_seconds(record));
      known.checked = known.checked || record.checked;
    } else if (known.seconds == 0) {
      known.seconds = usual_seconds(record);
      known.raced_out = record.raced_out;
      known.checked = known.checked || record.checked;
      known.decisions = DecisionMap(record.decisions.begin(), record.decisions.end());
      known.seed = record.seed;
      known.error = record.error;
      known.signal = record.signal;
      known.message = record.message;
      known.lost_worker = record.lost_worker;
      if (record.lost_worker) ++lost_workers_;
    }
  }
  std::erase_if(records_, [](const auto& record) { return record.second.seconds == 0; });
  return {};
}

TaskTuner::Known TaskTuner::Recorded::all() const {
  Known known = first();
  known.checked = checked;
  known.n_confirmed = confirmed_s.size();
  if (!confirmed_s.empty()) known.confirmed_s = confirmed_s.back();
  if (wrong) known.confirmed_s = kInfinity;
  return known;
}

// Candidates of the best records that the search has not come to; with `foreign`, those of other seeds alone. As many
// as time allows.
std::vector<const Candidate*> TaskTuner::adopt_records(bool foreign, double until_s) {
  std::vector<const std::pair<const std::string, Recorded>*> order;
  for (const auto& record : records_) {
    const Recorded& r = record.second;
    if (!std::isfinite(r.all().final_s()) || r.raced_out) continue;
    if (!foreign || r.seed != session_.options.seed) order.push_back(&record);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const double x = a->second.all().final_s(), y = b->second.all().final_s();
    return x != y ? x < y : a->first < b->first;
  });
  if (order.size() > kWarmStart) order.resize(kWarmStart);
  std::vector<const Candidate*> adopted;
  for (const auto* record : order) {
    if (session_.stopped() || session_.elapsed_s() >= until_s) break;
    const Candidate* candidate = bench_->make(record->second.decisions, record->second.seed);
    if (!candidate || candidate == default_ || bench_->trace(*candidate) != record->first) continue;
    const auto [known, fresh] = known_.emplace(candidate->number, record->second.all());
    if (!fresh) {
      if (known->second.n_confirmed < record->second.confirmed_s.size()) known->second = record->second.all();
      continue;
    }
    improve(candidate, record->second.seconds);
    adopted.push_back(candidate);
  }
  return adopted;
}

// Records of this seed come again as the search proposes their candidates, so that it goes the way that it went; the
// best of other seeds are where it starts from.
Result<> TaskTuner::begin_search(int first_points) {
  const uint64_t seed = hash_combine(session_.options.seed, key_.workload.hash.low);
  strategy_ =
      session_.options.strategy
          ? session_.options.strategy->make(*bench_, seed)
          : make_evolutionary_search(
                *bench_, {.seed = seed, .random_points = first_points, .population = session_.options.population});
  std::vector<Observation> start;
  if (const auto known = known_.find(default_->number); known != known_.end())
    start.push_back({default_, known->second.seconds});
  for (const Candidate* candidate : adopt_records(true, session_.search_until_s))
    start.push_back({candidate, known_.at(candidate->number).seconds});
  strategy_->observe(start);
  return session_.learner.learn(start);
}

Result<> TaskTuner::use_runner() {
  if (session_.current == this) return {};
  session_.current = nullptr;
  FETTLE_TRY_VOID(session_.runner.set_workload(task_.workload, {.reference_trace = reference_trace_}));
  session_.current = this;
  return {};
}

// An estimate that is not tight after this many calls is held up by what else the machine does; more of them hardly
// help.
TimingOptions TaskTuner::timing() const {
  TimingOptions timing = session_.options.timing;
  const double call_s = report_.best_s > 0 ? report_.best_s : predicted_s_;
  timing.max_seconds = std::min(timing.max_seconds, std::max(kTimedSeconds, kTimedCalls * call_s));
  return timing;
}

void TaskTuner::beside_anchor(MeasureRequest& request) const {
  if (!anchor_) return;
  request.beside_trace = bench_->trace(*anchor_);
  request.beside_s = anchor_s_;
}

Result<> TaskTuner::record(const Candidate& candidate, const MeasureResult& result, int64_t generation) {
  Record record;
  record.task = key_;
  record.trace = bench_->trace(candidate);
  record.decisions.insert(candidate.decisions.begin(), candidate.decisions.end());
  set_outcome(record, result);
  if (record.pace != 1) paces_.push_back(record.pace);
  record.checked = result.ok() && (result.checked || &candidate == default_);
  record.machine = describe(*session_.target);
  record.created_ns = now_ns();
  record.run = session_.options.run;
  record.elapsed_s = session_.elapsed_s();
  record.seed = session_.options.seed;
  record.generation = generation;
  record.candidate = candidate.number;
  return session_.database.add(record);
}

// What the harness did not manage is tried once more; should that fail, too, it is recorded as that: a later run then
// passes it over, and goes the way that this one goes.
Result<> TaskTuner::measure(std::vector<const Candidate*> candidates, MeasureRequest request) {
  for (const bool last_time : {false, true}) {
    FETTLE_TRY_VOID(use_runner());
    std::vector<std::string> traces;
    for (const Candidate* candidate : candidates) traces.push_back(bench_->trace(*candidate));
    std::vector<const Candidate*> again;
    Result<> kept;
    request.timing = timing();
    beside_anchor(request);
    request.check = session_.options.check_all;
    request.confirm_best = session_.options.confirm_each_best;
    request.max_seconds = session_.left_s(session_.search_until_s);
    request.should_stop = [&] { return !kept || session_.stopped() || session_.out_of_time(); };
    request.on_result = [&](size_t i, const MeasureResult& result) {
      if (!kept || result.error == ErrorCode::E407) return;
      if (result.error == ErrorCode::E406 && !last_time)
        again.push_back(candidates[i]);
      else
        kept = keep(candidates[i], result);
    };
    FETTLE_TRY([[maybe_unused]] const auto results, session_.runner.measure(traces, request));
    FETTLE_TRY_VOID(std::move(kept));
    if (again.empty()) break;
    candidates = std::move(again);
  }
  return {};
}

Result<> TaskTuner::keep(const Candidate* candidate, const MeasureResult& result) {
  ++session_.measured;
  ++report_.measured;
  session_.profile.build_s += result.build_s;
  session_.profile.run_s += result.run_s;
  if (result.lost_worker) ++lost_workers_;
  if (!result.ok()) note_failure(*candidate, result.error, result.signal, result.message);
  if (result.ok() && !result.raced_out) run_s_ = result.run_s;
  const double seconds = usual_seconds(result);
  known_[candidate->number] = {
      .seconds = seconds, .raced_out = result.raced_out, .checked = result.checked || candidate == default_};
  FETTLE_TRY_VOID(record(*candidate, result, generation_));
  if (result.ok() && !result.raced_out && candidate != default_) improve(candidate, seconds);
  if (session_.on_result) session_.on_result();
  return {};
}

void TaskTuner::improve(const Candidate* candidate, double seconds) {
  if (report_.best_s == 0 || seconds < report_.best_s) set_best(candidate, seconds, false);
}

void TaskTuner::set_best(const Candidate* candidate, double seconds, bool confirmed) {
  best_ = candidate;
  report_.best_s = seconds;
  report_.best_trace = bench_->trace(*candidate);
  report_.best_decisions = candidate->decisions;
  report_.confirmed = confirmed;
}

Result<> TaskTuner::measure_default() {
  if (!session_.options.start_from_default) return measure_offered();
  const PhaseTimer timer(session_, session_.profile.measure_s);
  const auto start = session_.elapsed_s();
  if (const auto known = records_.find(bench_->trace(*default_)); known != records_.end()) {
    known_[default_->number] = known->second.first();
    known_[default_->number].checked = true;
    if (known->second.wrong) known_[default_->number].seconds = kInfinity;
  } else {
    FETTLE_TRY_VOID(measure({default_}, {}));
    setup_s_ = session_.elapsed_s() - start;
  }
  if (const auto known = known_.find(default_->number); known != known_.end()) {
    ++report_.trials;
    if (std::isfinite(known->second.seconds)) {
      report_.default_s = known->second.seconds;
      anchor_ = default_, anchor_s_ = report_.default_s;
      improve(default_, known->second.seconds);
    } else {
      ++report_.failed;
    }
  }
  FETTLE_TRY_VOID(measure_offered());
  report_.seconds += session_.elapsed_s() - start;
  return {};
}

// A source that declines is passed over: `fettle inspect --candidates` says why.
Result<> TaskTuner::measure_offered() {
  for (const KernelSourceDef* source : session_.options.kernel_sources) {
    const auto offer = offered_schedule(*source, task_.workload, session_.target, session_.threads);
    if (!offer) continue;
    const Candidate* candidate = bench_->add_offered(offer->schedule);
    offered_.push_back(candidate);
    const auto recorded = records_.find(bench_->trace(*candidate));
    if (recorded != records_.end())
      known_[candidate->number] = recorded->second.all();
    else
      FETTLE_TRY_VOID(measure({candidate}, {}));
    const auto known = known_.find(candidate->number);
    if (known == known_.end()) continue;
    ++report_.trials;
    if (std::isfinite(known->second.seconds))
      improve(candidate, known->second.seconds);
    else
      ++report_.failed;
  }
  return {};
}

void TaskTuner::note_failure(const Candidate& candidate, ErrorCode error, int signal, const std::string& message) {
  ++session_.failed;
  for (FailureKind& kind : session_.failures)
    if (kind.error == error && kind.signal == signal) {
      ++kind.count;
      return;
    }
  session_.failures.push_back({error, signal, 1, task_.label, bench_->trace(candidate), message});
}

// Candidates of this task take workers along again and again: what is left of it is not worth that.
bool TaskTuner::quarantined() const {
  return lost_workers_ >= kKillers &&
         2 * lost_workers_ >= static_cast<int64_t>(std::max(known_.size(), records_.size()));
}

Result<BatchOutcome> TaskTuner::run_batch(size_t n) {
  if (quarantined()) {
    report_.quarantined = true;
    return BatchOutcome{report_.best_s, 0, true};
  }
  const auto start = session_.elapsed_s();
  ++generation_;
  // A batch cut short is the beginning of a whole one.
  std::vector<const Candidate*> batch;
  {
    const PhaseTimer timer(session_, session_.profile.propose_s);
    bench_->give_up_when([this] { return session_.stopped() || session_.out_of_time(); });
    batch = strategy_->propose(static_cast<size_t>(session_.options.batch));
    bench_->give_up_when({});
  }
  batch.resize(std::min(batch.size(), n));
  bench_->rest();
  std::vector<const Candidate*> unknown;
  for (const Candidate* candidate : batch) {
    if (const auto known = records_.find(bench_->trace(*candidate)); known != records_.end()) {
      const Known& result = known_[candidate->number] = known->second.first();
      const Recorded& r = known->second;
      if (r.error != ErrorCode::kNone) note_failure(*candidate, r.error, r.signal, r.message);
      if (std::isfinite(result.seconds) && !result.raced_out) improve(candidate, result.seconds);
    } else {
      unknown.push_back(candidate);
    }
  }
  if (!unknown.empty()) {
    const PhaseTimer timer(session_, session_.profile.measure_s);
    FETTLE_TRY_VOID(measure(unknown, {.incumbent_s = report_.best_s}));
  }

  if (!anchor_ && best_) anchor_ = best_, anchor_s_ = report_.best_s;

  std::vector<Observation> observations;
  for (const Candidate* candidate : batch) {
    const auto known = known_.find(candidate->number);
    if (known == known_.end()) continue;
    observations.push_back({candidate, known->second.seconds});
    if (!std::isfinite(known->second.seconds)) ++report_.failed;
  }
  report_.trials += static_cast<int64_t>(observations.size());
  {
    const PhaseTimer timer(session_, session_.profile.learn_s);
    strategy_->observe(observations);
    FETTLE_TRY_VOID(session_.learner.learn(observations));
  }
  const PhaseTimer timer(session_, session_.profile.confirm_s);
  FETTLE_TRY_VOID(check_leader());
  report_.seconds += session_.elapsed_s() - start;
  return BatchOutcome{report_.best_s, static_cast<int64_t>(observations.size()), batch.empty()};
}

}  // namespace fettle
