#include "tune/task_tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost/atom_table.h"
#include "tune/bound.h"
#include "tune/describe.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Generation of records that are the outcome of a confirmation.
constexpr int64_t kConfirmation = -1;
/// Known candidates of other runs that a search starts from.
constexpr int kWarmStart = 32;
/// A candidate replaces the default where it takes less than this share of its time.
constexpr double kFaster = 0.998;
/// Without a confirmation.
constexpr double kPlainlyFaster = 0.95;
constexpr int kConfirmationPasses = 3;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t n = values.size();
  return n == 0 ? 0 : (values[(n - 1) / 2] + values[n / 2]) / 2;
}

double peak_flops(const TuneSession& session) {
  if (session.options.peak_flops > 0) return session.options.peak_flops;
  if (!session.options.atoms) return 0;
  const MachineCosts& costs = session.options.atoms->costs();
  return costs.hz * costs.fma_per_cycle * 2 * session.target->vector_lanes(4);
}

// Of the candidate itself, not of the harness or of the clock.
bool is_outcome(ErrorCode error) { return error != ErrorCode::E406 && error != ErrorCode::E407; }

}  // namespace

Result<> Learner::learn(std::span<const Observation> observations) {
  for (const Observation& o : observations) {
    if (o.candidate->features.values.empty()) continue;
    features_.push_back(o.candidate->features);
    seconds_.push_back(o.seconds);
  }
  if (features_.size() < std::max<size_t>(1, trained_ / 4)) return {};
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
  t.bench_ = std::make_unique<Workbench>(
      options.space ? *options.space : rule_space(), task.workload, session.target, session.threads,
      session.learner.model(),
      options.describe ? options.describe : describe_by_lowering(session.target, session.threads, options.atoms));
  FETTLE_TRY(const Schedule constructed,
             default_schedule(task.workload, session.target, session.threads, options.atoms));
  t.default_ = t.bench_->add(constructed);
  if (!t.default_) return fail(ErrorCode::E401, "its default has no lowering", task.label);
  t.predicted_s_ = t.bench_->predict(std::span(&t.default_, 1)).front();
  if (const double peak = peak_flops(session); peak > 0)
    t.bound_s_ = needed_flops(task.workload) / (peak * session.threads);
  t.strategy_ = make_evolutionary_search(
      *t.bench_, {.seed = hash_combine(options.seed, t.key_.workload.hash.low), .random_points = options.first_points});
  t.report_.default_trace = t.report_.best_trace = t.default_->trace;
  t.report_.best_decisions = t.default_->decisions;
  FETTLE_TRY_VOID(t.read_records());
  return tuner;
}

// Records of this seed come again as the search proposes their candidates, so that it goes the way that it went; the
// best of other seeds are where it starts from.
Result<> TaskTuner::read_records() {
  FETTLE_TRY(const std::vector<Record> records, session_.database.records(key_));
  std::vector<const Record*> others;
  for (const Record& record : records) {
    Known& known = records_[record.trace];
    const double seconds = record.ok() ? record.median_s : kInfinity;
    if (record.generation == kConfirmation) {
      known.confirmed_s = seconds;
      continue;
    }
    if (known.seconds == 0) {
      known.seconds = seconds;
      known.raced_out = record.raced_out;
    }
    if (record.ok() && !record.raced_out && record.seed != session_.options.seed) others.push_back(&record);
  }
  std::erase_if(records_, [](const auto& known) { return known.second.seconds == 0; });
  std::stable_sort(others.begin(), others.end(),
                   [](const Record* a, const Record* b) { return a->median_s < b->median_s; });
  std::vector<Observation> start;
  for (const Record* record : others) {
    if (static_cast<int>(start.size()) >= kWarmStart) break;
    DecisionMap decisions(record->decisions.begin(), record->decisions.end());
    const Candidate* candidate = bench_->make(decisions, record->seed);
    if (!candidate || candidate == default_ || candidate->trace != record->trace || known_.contains(candidate->number))
      continue;
    known_[candidate->number] = records_.at(record->trace);
    start.push_back({candidate, record->median_s});
    improve(candidate, record->median_s);
  }
  strategy_->observe(start);
  return session_.learner.learn(start);
}

Result<> TaskTuner::use_runner() {
  if (session_.current == this) return {};
  session_.current = nullptr;
  FETTLE_TRY_VOID(session_.runner.set_workload(task_.workload, {.reference_trace = default_->trace}));
  session_.current = this;
  return {};
}

Result<> TaskTuner::record(const Candidate& candidate, const MeasureResult& result, int64_t generation) {
  Record record;
  record.task = key_;
  record.trace = candidate.trace;
  record.decisions.insert(candidate.decisions.begin(), candidate.decisions.end());
  record.error = result.error;
  record.signal = result.signal;
  record.message = result.message;
  record.median_s = result.median_s;
  record.min_s = result.min_s;
  record.half_width = result.half_width;
  record.repeats = result.repeats;
  record.raced_out = result.raced_out;
  record.machine = describe(*session_.target);
  record.created_ns = now_ns();
  record.seed = session_.options.seed;
  record.generation = generation;
  record.candidate = candidate.number;
  return session_.database.add(record);
}

Result<std::vector<MeasureResult>> TaskTuner::measure(const std::vector<const Candidate*>& candidates,
                                                      MeasureRequest request) {
  FETTLE_TRY_VOID(use_runner());
  std::vector<std::string> traces;
  traces.reserve(candidates.size());
  for (const Candidate* candidate : candidates) traces.push_back(candidate->trace);
  Result<> kept;
  request.timing = session_.options.timing;
  request.should_stop = [&] { return !kept || session_.stopped() || session_.out_of_time(); };
  request.on_result = [&](size_t i, const MeasureResult& result) {
    if (!is_outcome(result.error) || !kept) return;
    ++session_.measured;
    ++report_.measured;
    if (!result.ok()) ++session_.failed;
    known_[candidates[i]->number] = {result.ok() ? result.median_s : kInfinity, result.raced_out};
    kept = record(*candidates[i], result, generation_);
    if (result.ok() && !result.raced_out && candidates[i] != default_) improve(candidates[i], result.median_s);
    if (session_.on_result) session_.on_result();
  };
  FETTLE_TRY(std::vector<MeasureResult> results, session_.runner.measure(traces, request));
  FETTLE_TRY_VOID(std::move(kept));
  return results;
}

void TaskTuner::improve(const Candidate* candidate, double seconds) {
  if (report_.best_s == 0 || seconds < report_.best_s) set_best(candidate, seconds, false);
}

void TaskTuner::set_best(const Candidate* candidate, double seconds, bool confirmed) {
  report_.best_s = seconds;
  report_.best_trace = candidate->trace;
  report_.best_decisions = candidate->decisions;
  report_.confirmed = confirmed;
}

Result<> TaskTuner::measure_default() {
  const auto start = session_.elapsed_s();
  if (const auto known = records_.find(default_->trace); known != records_.end()) {
    known_[default_->number] = known->second;
  } else {
    FETTLE_TRY_VOID(measure({default_}, {}));
  }
  if (const auto known = known_.find(default_->number); known != known_.end()) {
    ++report_.trials;
    const Observation observation{default_, known->second.seconds};
    if (std::isfinite(observation.seconds)) {
      report_.default_s = observation.seconds;
      improve(default_, observation.seconds);
    } else {
      ++report_.failed;
    }
    strategy_->observe(std::span(&observation, 1));
    FETTLE_TRY_VOID(session_.learner.learn(std::span(&observation, 1)));
  }
  report_.seconds += session_.elapsed_s() - start;
  return {};
}

Result<BatchOutcome> TaskTuner::run_batch(size_t n) {
  const auto start = session_.elapsed_s();
  ++generation_;
  const std::vector<const Candidate*> batch = strategy_->propose(n);
  std::vector<const Candidate*> unknown;
  for (const Candidate* candidate : batch) {
    if (const auto known = records_.find(candidate->trace); known != records_.end()) {
      known_[candidate->number] = known->second;
      if (std::isfinite(known->second.seconds) && !known->second.raced_out) improve(candidate, known->second.seconds);
    } else {
      unknown.push_back(candidate);
    }
  }
  if (!unknown.empty()) FETTLE_TRY_VOID(measure(unknown, {.incumbent_s = report_.best_s}));

  std::vector<Observation> observations;
  for (const Candidate* candidate : batch) {
    const auto known = known_.find(candidate->number);
    if (known == known_.end()) continue;
    observations.push_back({candidate, known->second.seconds});
    if (!std::isfinite(known->second.seconds)) ++report_.failed;
  }
  report_.trials += static_cast<int64_t>(observations.size());
  strategy_->observe(observations);
  FETTLE_TRY_VOID(session_.learner.learn(observations));
  report_.seconds += session_.elapsed_s() - start;
  return BatchOutcome{report_.best_s, static_cast<int64_t>(observations.size()), batch.empty()};
}

// Candidates that seem faster than the default, fastest first.
std::vector<const Candidate*> TaskTuner::contenders() const {
  std::vector<std::pair<double, const Candidate*>> order;
  for (const auto& [number, known] : known_) {
    const Candidate* candidate = &bench_->candidate(number);
    if (candidate == default_ || (known.raced_out && known.confirmed_s == 0)) continue;
    if (!std::isfinite(known.final_s())) continue;
    if (report_.default_s > 0 && known.final_s() >= kFaster * report_.default_s) continue;
    order.emplace_back(known.final_s(), candidate);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Candidate*> result;
  for (const auto& [seconds, candidate] : order) result.push_back(candidate);
  return result;
}

bool TaskTuner::needs_confirmation() const {
  const auto order = contenders();
  return !order.empty() && known_.at(order.front()->number).confirmed_s == 0;
}

Result<> TaskTuner::confirm(bool has_time) {
  const double start = session_.elapsed_s();
  for (int pass = 0; has_time && pass < kConfirmationPasses && needs_confirmation(); ++pass) {
    FETTLE_TRY(const bool done, confirm_once());
    if (!done) break;
  }
  const auto order = contenders();
  const auto sure = std::find_if(order.begin(), order.end(), [&](const Candidate* candidate) {
    const Known& known = known_.at(candidate->number);
    return known.confirmed_s > 0 || report_.default_s == 0 || known.seconds < kPlainlyFaster * report_.default_s;
  });
  if (sure != order.end()) {
    const Known& best = known_.at((*sure)->number);
    set_best(*sure, best.final_s(), best.confirmed_s > 0);
  } else if (report_.default_s > 0) {
    set_best(default_, report_.default_s, known_.at(default_->number).confirmed_s > 0);
  }
  report_.seconds += session_.elapsed_s() - start;
  return {};
}

// Each of the best, and the default, in turn, several times; false where it was cut short.
Result<bool> TaskTuner::confirm_once() {
  std::vector<const Candidate*> list = contenders();
  list.resize(std::min(list.size(), static_cast<size_t>(std::max(1, session_.options.confirm))));
  const bool has_default = report_.default_s > 0;
  if (has_default) list.push_back(default_);
  FETTLE_TRY_VOID(use_runner());

  std::vector<std::vector<double>> times(list.size());
  std::vector<MeasureResult> last(list.size());
  const auto run = [&](const std::vector<size_t>& which, bool check) -> Result<bool> {
    std::vector<std::string> traces;
    for (const size_t i : which) traces.push_back(list[i]->trace);
    MeasureRequest request{.check = check, .timing = session_.options.timing};
    request.should_stop = [&] { return session_.stopped(); };
    FETTLE_TRY(const std::vector<MeasureResult> results, session_.runner.measure(traces, request));
    for (size_t k = 0; k < which.size(); ++k) {
      if (results[k].error == ErrorCode::E407) return false;
      const size_t i = which[k];
      if (results[k].ok()) times[i].push_back(results[k].median_s);
      if (results[k].ok() || last[i].ok()) last[i] = results[k];
    }
    return true;
  };
  std::vector<size_t> all, sound;
  for (size_t i = 0; i < list.size(); ++i) all.push_back(i);
  FETTLE_TRY(const bool checked, run(all, true));
  if (!checked) return false;
  for (const size_t i : all)
    if (last[i].ok()) sound.push_back(i);
  std::vector<size_t> rounds;
  for (int r = 1; r < session_.options.confirm_rounds; ++r) rounds.insert(rounds.end(), sound.begin(), sound.end());
  FETTLE_TRY(const bool finished, run(rounds, false));
  if (!finished) return false;

  for (const size_t i : all) {
    MeasureResult& result = last[i];
    if (result.error == ErrorCode::E406) continue;
    if (result.ok()) {
      // The rounds are the samples.
      const auto [fastest, slowest] = std::minmax_element(times[i].begin(), times[i].end());
      result.median_s = median(times[i]);
      result.min_s = *fastest;
      result.half_width = (*slowest - *fastest) / 2 / result.median_s;
      result.repeats = static_cast<int64_t>(times[i].size());
      result.raced_out = false;
    } else {
      ++session_.failed;
      ++report_.failed;
    }
    known_[list[i]->number].confirmed_s = result.ok() ? result.median_s : kInfinity;
    FETTLE_TRY_VOID(record(*list[i], result, kConfirmation));
  }
  if (has_default) {
    const double seconds = known_.at(default_->number).final_s();
    report_.default_s = std::isfinite(seconds) ? seconds : 0;
  }
  return true;
}

}  // namespace fettle
