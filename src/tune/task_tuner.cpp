#include "tune/task_tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "cost/atom_table.h"
#include "tune/bound.h"
#include "tune/describe.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// Generation of records that are the outcome of a confirmation.
constexpr int64_t kConfirmation = -1;
/// Known candidates of other runs that a search starts from.
constexpr size_t kWarmStart = 32;
/// A candidate replaces the default where it takes less than this share of its time.
constexpr double kFaster = 0.998;
/// Without a confirmation.
constexpr double kPlainlyFaster = 0.95;
constexpr int kConfirmationPasses = 8;
/// Of these, those that time the best again; the others check results.
constexpr int kTimedAgain = 2;
constexpr double kTight = 0.04;
/// A peak that was measured on a busy machine is too low; the bound must not be.
constexpr double kPeakMargin = 1.05;
/// Of one candidate, at most.
constexpr double kTimedCalls = 30, kTimedSeconds = 0.03;
/// Rounds are done in series, as long as they disagree by more than this.
constexpr int kSeries = 3;
constexpr double kAgree = 1.02;

double peak_flops(const TuneSession& session) {
  if (session.options.peak_flops > 0) return session.options.peak_flops;
  if (!session.options.atoms) return 0;
  const MachineCosts& costs = session.options.atoms->costs();
  return costs.hz * costs.fma_per_cycle * 2 * session.target->vector_lanes(4);
}

// What a search goes by: the median or, where that is not tight, since something else ran as well, the fastest batch.
double seconds_of(double median_s, double min_s, double half_width) {
  return half_width <= kTight || min_s <= 0 ? median_s : min_s;
}
double seconds_of(const MeasureResult& r) { return r.ok() ? seconds_of(r.median_s, r.min_s, r.half_width) : kInfinity; }
double seconds_of(const Record& r) { return r.ok() ? seconds_of(r.median_s, r.min_s, r.half_width) : kInfinity; }

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
    t.bound_s_ = needed_flops(task.workload) / (kPeakMargin * peak * session.threads);
  t.report_.default_trace = t.report_.best_trace = t.default_->trace;
  t.report_.best_decisions = t.default_->decisions;
  FETTLE_TRY_VOID(t.read_records());
  return tuner;
}

Result<> TaskTuner::read_records() {
  FETTLE_TRY(const std::vector<Record> records, session_.database.records(key_));
  for (const Record& record : records) {
    Known& known = records_[record.trace].known;
    const double seconds = seconds_of(record);
    if (record.generation == kConfirmation) {
      known.confirmed_s = seconds;
      known.checked = true;
      continue;
    }
    if (known.seconds != 0) continue;
    known.seconds = seconds;
    known.raced_out = record.raced_out;
    records_[record.trace].decisions = DecisionMap(record.decisions.begin(), record.decisions.end());
    records_[record.trace].seed = record.seed;
  }
  std::erase_if(records_, [](const auto& record) { return record.second.known.seconds == 0; });
  return {};
}

// Candidates of the best records that the search has not come to; with `foreign`, those of other seeds alone.
std::vector<const Candidate*> TaskTuner::adopt_records(bool foreign) {
  std::vector<const std::pair<const std::string, Recorded>*> order;
  for (const auto& record : records_) {
    const Recorded& r = record.second;
    if (!std::isfinite(r.known.final_s()) || r.known.raced_out) continue;
    if (!foreign || r.seed != session_.options.seed) order.push_back(&record);
  }
  std::sort(order.begin(), order.end(), [](const auto* a, const auto* b) {
    const double x = a->second.known.final_s(), y = b->second.known.final_s();
    return x != y ? x < y : a->first < b->first;
  });
  if (order.size() > kWarmStart) order.resize(kWarmStart);
  std::vector<const Candidate*> adopted;
  for (const auto* record : order) {
    const Candidate* candidate = bench_->make(record->second.decisions, record->second.seed);
    if (!candidate || candidate == default_ || candidate->trace != record->first) continue;
    if (!known_.emplace(candidate->number, record->second.known).second) continue;
    improve(candidate, record->second.known.seconds);
    adopted.push_back(candidate);
  }
  return adopted;
}

// Records of this seed come again as the search proposes their candidates, so that it goes the way that it went; the
// best of other seeds are where it starts from.
Result<> TaskTuner::begin_search(int first_points) {
  strategy_ = make_evolutionary_search(
      *bench_, {.seed = hash_combine(session_.options.seed, key_.workload.hash.low), .random_points = first_points});
  std::vector<Observation> start;
  if (const auto known = known_.find(default_->number); known != known_.end())
    start.push_back({default_, known->second.seconds});
  for (const Candidate* candidate : adopt_records(true))
    start.push_back({candidate, known_.at(candidate->number).seconds});
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

// An estimate that is not tight after this many calls is held up by what else the machine does; more of them hardly
// help.
TimingOptions TaskTuner::timing() const {
  TimingOptions timing = session_.options.timing;
  const double call_s = report_.best_s > 0 ? report_.best_s : predicted_s_;
  timing.max_seconds = std::min(timing.max_seconds, std::max(kTimedSeconds, kTimedCalls * call_s));
  return timing;
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
  request.timing = timing();
  request.should_stop = [&] { return !kept || session_.stopped() || session_.out_of_time(); };
  request.on_result = [&](size_t i, const MeasureResult& result) {
    if (!is_outcome(result.error) || !kept) return;
    ++session_.measured;
    ++report_.measured;
    if (!result.ok()) ++session_.failed;
    known_[candidates[i]->number] = {seconds_of(result), result.raced_out};
    kept = record(*candidates[i], result, generation_);
    if (result.ok() && !result.raced_out && candidates[i] != default_) improve(candidates[i], seconds_of(result));
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
    known_[default_->number] = known->second.known;
  } else {
    FETTLE_TRY_VOID(measure({default_}, {}));
  }
  if (const auto known = known_.find(default_->number); known != known_.end()) {
    ++report_.trials;
    if (std::isfinite(known->second.seconds)) {
      report_.default_s = known->second.seconds;
      improve(default_, known->second.seconds);
    } else {
      ++report_.failed;
    }
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
      const Known& result = known_[candidate->number] = known->second.known;
      if (std::isfinite(result.seconds) && !result.raced_out) improve(candidate, result.seconds);
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
  return !order.empty() && !known_.at(order.front()->number).checked;
}

Result<> TaskTuner::confirm(bool has_time) {
  const double start = session_.elapsed_s();
  (void)adopt_records(false);
  for (int pass = 0, timed = 0; has_time && pass < kConfirmationPasses; ++pass) {
    const auto order = contenders();
    if (order.empty()) break;
    const Known& leader = known_.at(order.front()->number);
    if (leader.confirmed_s > 0 && leader.checked) break;
    bool done = false;
    if (leader.confirmed_s == 0 && timed++ < kTimedAgain) {
      FETTLE_TRY(done, time_again());
    } else {
      FETTLE_TRY(done, check(order.front()));
    }
    if (!done) break;
  }
  const auto order = contenders();
  const auto sure = std::find_if(order.begin(), order.end(), [&](const Candidate* candidate) {
    const Known& known = known_.at(candidate->number);
    return known.checked || report_.default_s == 0 || known.final_s() < kPlainlyFaster * report_.default_s;
  });
  if (sure != order.end()) {
    const Known& best = known_.at((*sure)->number);
    set_best(*sure, best.final_s(), best.checked && best.confirmed_s > 0);
  } else if (report_.default_s > 0) {
    set_best(default_, report_.default_s, known_.at(default_->number).confirmed_s > 0);
  }
  report_.seconds += session_.elapsed_s() - start;
  return {};
}

// The best and the default in turn, round by round. Whatever else the machine does only adds to a time, so each one's
// quietest round counts; rounds go on until for the best of all and the default two rounds agree. False: cut short.
Result<bool> TaskTuner::time_again() {
  std::vector<const Candidate*> list = contenders();
  list.resize(std::min(list.size(), static_cast<size_t>(std::max(1, session_.options.confirm))));
  if (report_.default_s > 0) list.push_back(default_);
  std::vector<std::vector<MeasureResult>> rounds(list.size());
  std::vector<MeasureResult> failures(list.size());

  std::vector<size_t> sound(list.size());
  std::iota(sound.begin(), sound.end(), size_t{0});
  const auto fastest_first = [](const MeasureResult& a, const MeasureResult& b) { return a.median_s < b.median_s; };
  const auto settled = [&] {
    size_t best = sound.front();
    for (const size_t i : sound)
      if (rounds[i].front().median_s < rounds[best].front().median_s) best = i;
    for (const size_t i : {best, sound.back()})
      if (rounds[i].size() > 1 && rounds[i][1].median_s > kAgree * rounds[i][0].median_s) return false;
    return true;
  };
  for (int series = 0; series < kSeries; ++series) {
    std::vector<size_t> which;
    for (int r = 0; r < session_.options.confirm_rounds; ++r) which.insert(which.end(), sound.begin(), sound.end());
    std::vector<const Candidate*> candidates;
    for (const size_t i : which) candidates.push_back(list[i]);
    FETTLE_TRY(const std::vector<MeasureResult> results, repeat(candidates, false));
    for (size_t k = 0; k < which.size(); ++k) {
      if (results[k].error == ErrorCode::E407) return false;
      if (results[k].ok()) {
        rounds[which[k]].push_back(results[k]);
        rounds[which[k]].back().median_s = seconds_of(results[k]);
      } else {
        failures[which[k]] = results[k];
      }
    }
    std::erase_if(sound, [&](size_t i) { return !failures[i].ok() || rounds[i].empty(); });
    for (const size_t i : sound) std::sort(rounds[i].begin(), rounds[i].end(), fastest_first);
    if (sound.empty() || settled()) break;
  }

  for (size_t i = 0; i < list.size(); ++i) {
    MeasureResult result = failures[i].ok() ? rounds[i].front() : failures[i];
    if (!is_outcome(result.error)) {
      known_[list[i]->number].confirmed_s = known_[list[i]->number].seconds;
      continue;
    }
    if (!result.ok()) ++session_.failed, ++report_.failed;
    result.repeats = static_cast<int64_t>(rounds[i].size());
    result.raced_out = false;
    known_[list[i]->number].confirmed_s = result.ok() ? result.median_s : kInfinity;
    FETTLE_TRY_VOID(record(*list[i], result, kConfirmation));
    if (list[i] == default_) report_.default_s = result.ok() ? result.median_s : 0;
  }
  return true;
}

// Compares its outputs with the plain program's. False: cut short.
Result<bool> TaskTuner::check(const Candidate* candidate) {
  FETTLE_TRY(const std::vector<MeasureResult> results, repeat({candidate}, true));
  const MeasureResult& result = results.front();
  if (result.error == ErrorCode::E406 || result.error == ErrorCode::E407) return false;
  Known& known = known_[candidate->number];
  known.checked = true;
  if (known.confirmed_s == 0) known.confirmed_s = known.seconds;
  if (result.ok()) return true;
  ++session_.failed;
  ++report_.failed;
  known.confirmed_s = kInfinity;
  FETTLE_TRY_VOID(record(*candidate, result, kConfirmation));
  return true;
}

// Once more, whatever is known, until the stop flag is set.
Result<std::vector<MeasureResult>> TaskTuner::repeat(const std::vector<const Candidate*>& candidates, bool check) {
  FETTLE_TRY_VOID(use_runner());
  std::vector<std::string> traces;
  traces.reserve(candidates.size());
  for (const Candidate* candidate : candidates) traces.push_back(candidate->trace);
  MeasureRequest request{.check = check, .timing = timing()};
  request.should_stop = [this] { return session_.stopped(); };
  return session_.runner.measure(traces, request);
}

}  // namespace fettle
