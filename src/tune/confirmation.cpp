// The second half of TaskTuner: whether the best is right, and how fast it is when timed side by side.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "measure/sampled.h"
#include "tune/task_tuner.h"

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A candidate replaces the default where it takes less than this share of its time.
constexpr double kFaster = 0.998;
/// Without having been timed again.
constexpr double kPlainlyFaster = 0.95;
constexpr int kConfirmationPasses = 8;
/// Of these, those that time the best again; the others check results.
constexpr int kTimedAgain = 2;
/// Rounds are done in series, as long as they disagree by more than this.
constexpr int kSeries = 3;
constexpr double kAgree = 1.02;
/// A refinement times so many again, as often, of those that are so close to the best.
constexpr size_t kRefined = 10;
constexpr int kRefinedRounds = 4;
constexpr double kClose = 1.08;
/// Building and starting one candidate.
constexpr double kOverheadSeconds = 0.02;
/// A plain program's block instances a second; the most that a reference may take.
constexpr double kPlainRate = 3e8, kMaxReferenceSeconds = 0.6;
/// New best candidates that are checked in a row, should they turn out to be wrong.
constexpr int kLeadersChecked = 3;

}  // namespace

// Candidates that seem to take less than this share of the default's time, fastest first.
std::vector<const Candidate*> TaskTuner::contenders(double share) const {
  std::vector<std::pair<double, const Candidate*>> order;
  for (const auto& [number, known] : known_) {
    const Candidate* candidate = &bench_->candidate(number);
    if (candidate == default_ || (known.raced_out && known.confirmed_s == 0)) continue;
    if (!std::isfinite(known.final_s())) continue;
    if (report_.default_s > 0 && known.final_s() >= share * report_.default_s) continue;
    order.emplace_back(known.final_s(), candidate);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const Candidate*> result;
  for (const auto& [seconds, candidate] : order) result.push_back(candidate);
  return result;
}

// The best n, then the default.
std::vector<const Candidate*> TaskTuner::confirmation_list(size_t n) const {
  std::vector<const Candidate*> list = contenders(kMaybeFaster);
  list.resize(std::min(list.size(), n));
  if (report_.default_s > 0) list.push_back(default_);
  return list;
}

// Only what seems faster needs right results.
bool TaskTuner::needs_check(const Candidate* candidate) const {
  const Known& known = known_.at(candidate->number);
  return !known.checked && (report_.default_s == 0 || known.final_s() < kFaster * report_.default_s);
}

bool TaskTuner::needs_confirmation() const {
  const auto order = contenders(kMaybeFaster);
  return !order.empty() && (needs_check(order.front()) || known_.at(order.front()->number).confirmed_s == 0);
}

double TaskTuner::run_cost_s() const {
  const double guess_s = std::min(timing().max_seconds, std::max(0.005, 8 * report_.best_s));
  return kOverheadSeconds / 2 + (run_s_ > 0 ? run_s_ : guess_s);
}

double TaskTuner::confirmation_s() const {
  const auto order = contenders(kMaybeFaster);
  if (order.empty()) return 0;
  double total_s = session_.current == this ? 0 : setup_s_;
  if (needs_check(order.front())) {
    const double reference_s = 0.1 + count_instances(task_.workload) / kPlainRate;
    total_s += check_s_ > 0 ? check_s_ : run_cost_s() + std::min(kMaxReferenceSeconds, reference_s);
  }
  if (known_.at(order.front()->number).confirmed_s == 0) {
    const size_t n = 1 + std::min(order.size(), static_cast<size_t>(std::max(1, session_.options.confirm)));
    total_s += static_cast<double>(n) * session_.options.confirm_rounds * run_cost_s();
  }
  return total_s;
}

Result<> TaskTuner::confirm(double until_s) {
  const double start = session_.elapsed_s();
  Result<> done = check_and_time(until_s);
  choose_best();
  const double pace = quiet_pace(paces_);
  report_.best_s *= pace;
  report_.default_s *= pace;
  report_.seconds += session_.elapsed_s() - start;
  return done;
}

Result<> TaskTuner::check_and_time(double until_s) {
  (void)adopt_records(false, until_s);
  for (int pass = 0, timed = 0; pass < kConfirmationPasses; ++pass) {
    if (session_.stopped() || session_.elapsed_s() >= until_s) break;
    const auto order = contenders(kMaybeFaster);
    if (order.empty()) break;
    bool done = false;
    if (needs_check(order.front())) {
      FETTLE_TRY(done, check(order.front(), until_s));
    } else if (known_.at(order.front()->number).confirmed_s == 0 && timed++ < kTimedAgain) {
      const auto list = confirmation_list(static_cast<size_t>(std::max(1, session_.options.confirm)));
      FETTLE_TRY(done, time_again(list, session_.options.confirm_rounds, kSeries, until_s));
    }
    if (!done) break;
  }
  return check_default(until_s);
}

// The fastest whose results are right and that is surely faster than the default; else the default.
void TaskTuner::choose_best() {
  const auto order = contenders(kFaster);
  const auto sure = std::find_if(order.begin(), order.end(), [&](const Candidate* candidate) {
    const Known& known = known_.at(candidate->number);
    return known.checked &&
           (known.confirmed_s > 0 || report_.default_s == 0 || known.final_s() < kPlainlyFaster * report_.default_s);
  });
  if (sure != order.end()) {
    const Known& best = known_.at((*sure)->number);
    set_best(*sure, best.final_s(), best.confirmed_s > 0);
  } else if (report_.default_s > 0) {
    set_best(default_, report_.default_s, known_.at(default_->number).confirmed_s > 0);
  } else {
    report_.best_s = 0;
    report_.best_trace = bench_->trace(*default_);
    report_.best_decisions = default_->decisions;
  }
}

Result<> TaskTuner::refine() {
  const double start = session_.elapsed_s();
  auto list = confirmation_list(kRefined);
  if (list.size() > 1) {
    const double limit_s = kClose * known_.at(list.front()->number).final_s();
    std::erase_if(list, [&](const Candidate* c) { return c != default_ && known_.at(c->number).final_s() > limit_s; });
    FETTLE_TRY_VOID(time_again(list, kRefinedRounds, 1, session_.search_until_s));
    // What the search believes of them is replaced by what is known now.
    std::vector<Observation> again;
    for (const Candidate* candidate : list)
      if (std::ranges::find(offered_, candidate) == offered_.end())
        again.push_back({candidate, known_.at(candidate->number).final_s()});
    strategy_->observe(again);
    const auto order = contenders(kFaster);
    if (!order.empty()) set_best(order.front(), known_.at(order.front()->number).final_s(), false);
    FETTLE_TRY_VOID(check_leader());
  }
  report_.seconds += session_.elapsed_s() - start;
  return {};
}

// The times that an earlier run got when it timed these again, for the same time in turn. False: it did not.
bool TaskTuner::replay_times(const std::vector<const Candidate*>& list) {
  std::vector<double> times;
  for (const Candidate* candidate : list) {
    const auto recorded = records_.find(bench_->trace(*candidate));
    const size_t turn = known_.at(candidate->number).n_confirmed;
    if (recorded == records_.end() || recorded->second.confirmed_s.size() <= turn) return false;
    times.push_back(recorded->second.confirmed_s[turn]);
  }
  for (size_t i = 0; i < list.size(); ++i) {
    Known& known = known_.at(list[i]->number);
    ++known.n_confirmed;
    known.confirmed_s = times[i];
    if (list[i] == default_) report_.default_s = std::isfinite(times[i]) ? times[i] : 0;
  }
  return true;
}

// Of these rounds, fastest first, the one that counts. Timed beside another, what slowed both is in neither, and the
// lowest would be the luckiest: the median. Timed alone, whatever else the machine does only adds to a time: the
// quietest.
size_t TaskTuner::typical(const std::vector<MeasureResult>& rounds) {
  return rounds.front().beside ? rounds.size() / 2 : 0;
}

// These in turn, round by round; series of rounds go on until for the best of all and the default two rounds agree.
// A candidate that the harness never managed to time (E406) is out, for this run. False: cut short, without a round of
// each.
Result<bool> TaskTuner::time_again(const std::vector<const Candidate*>& list, int n_rounds, int n_series,
                                   double until_s) {
  if (replay_times(list)) return true;
  std::vector<std::vector<MeasureResult>> rounds(list.size());
  std::vector<MeasureResult> failures(list.size()), lost(list.size());

  std::vector<size_t> sound(list.size());
  std::iota(sound.begin(), sound.end(), size_t{0});
  const auto fastest_first = [](const MeasureResult& a, const MeasureResult& b) { return a.median_s < b.median_s; };
  const auto settled = [&] {
    size_t best = sound.front();
    for (const size_t i : sound)
      if (rounds[i][typical(rounds[i])].median_s < rounds[best][typical(rounds[best])].median_s) best = i;
    for (const size_t i : {best, sound.back()}) {
      const size_t n = rounds[i].size(), low = rounds[i].front().beside ? (n - 1) / 2 : 0;
      if (low + 1 < n && rounds[i][low + 1].median_s > kAgree * rounds[i][low].median_s) return false;
    }
    return true;
  };
  for (int series = 0; series < n_series; ++series) {
    std::vector<size_t> which;
    for (int r = 0; r < n_rounds; ++r) which.insert(which.end(), sound.begin(), sound.end());
    std::vector<const Candidate*> candidates;
    for (const size_t i : which) candidates.push_back(list[i]);
    FETTLE_TRY(const std::vector<MeasureResult> results, repeat(candidates, false, until_s));
    bool cut_short = false;
    for (size_t k = 0; k < which.size(); ++k) {
      cut_short |= results[k].error == ErrorCode::E407;
      if (results[k].ok()) {
        rounds[which[k]].push_back(results[k]);
        rounds[which[k]].back().median_s = usual_seconds(results[k]);
      } else if (is_outcome(results[k].error)) {
        failures[which[k]] = results[k];
      } else if (results[k].error == ErrorCode::E406 && failures[which[k]].ok()) {
        lost[which[k]] = results[k];
      }
    }
    for (const size_t i : sound)
      if (rounds[i].empty() && failures[i].ok() && list[i] != default_) failures[i] = lost[i];
    std::erase_if(sound, [&](size_t i) { return !failures[i].ok(); });
    for (const size_t i : sound)
      if (rounds[i].empty()) return false;
    for (const size_t i : sound) std::sort(rounds[i].begin(), rounds[i].end(), fastest_first);
    if (cut_short || sound.empty() || settled()) break;
  }

  for (size_t i = 0; i < list.size(); ++i) {
    Known& known = known_.at(list[i]->number);
    MeasureResult result = failures[i].ok() ? rounds[i][typical(rounds[i])] : failures[i];
    if (result.beside && list[i] == anchor_) result.median_s = result.min_s = anchor_s_;
    if (!result.ok()) {
      ++report_.failed;
      note_failure(*list[i], result.error, result.signal, result.message);
    }
    result.repeats = static_cast<int64_t>(rounds[i].size());
    result.raced_out = false;
    result.checked = result.ok() && known.checked;
    known.confirmed_s = result.ok() ? result.median_s : kInfinity;
    if (result.error == ErrorCode::E406) continue;  // nothing of the candidate's own is to be remembered
    ++known.n_confirmed;
    FETTLE_TRY_VOID(record(*list[i], result, kConfirmationGeneration));
    if (list[i] == default_) report_.default_s = result.ok() ? result.median_s : 0;
  }
  return true;
}

// Compares its outputs with what they should be. Where the harness fails twice (E406), the candidate is out for this
// run, but for the default, which is trusted. False: cut short.
Result<bool> TaskTuner::check(const Candidate* candidate, double until_s) {
  Known& known = known_.at(candidate->number);
  if (const auto recorded = records_.find(bench_->trace(*candidate));
      recorded != records_.end() && recorded->second.checked) {
    known.checked = true;
    if (recorded->second.wrong) known.confirmed_s = kInfinity;
    return true;
  }
  const double start = session_.elapsed_s();
  MeasureResult result;
  for (const bool last_time : {false, true}) {
    FETTLE_TRY(std::vector<MeasureResult> results, repeat({candidate}, true, until_s));
    result = std::move(results.front());
    if (result.error != ErrorCode::E406 || last_time) break;
  }
  check_s_ = session_.elapsed_s() - start;
  const bool lost = result.error == ErrorCode::E406;
  if (result.error == ErrorCode::E407 || (lost && candidate == default_)) return false;
  known.checked = true;
  if (!result.ok()) {
    ++report_.failed;
    note_failure(*candidate, result.error, result.signal, result.message);
    known.confirmed_s = kInfinity;
  }
  if (!lost) FETTLE_TRY_VOID(record(*candidate, result, kCheckGeneration));
  return true;
}

// The default is trusted, but where there is a reference anyway, it is held to that.
Result<> TaskTuner::check_default(double until_s) {
  if (check_s_ == 0 || report_.default_s == 0 || session_.stopped() || session_.left_s(until_s) < check_s_) return {};
  FETTLE_TRY([[maybe_unused]] const bool done, check(default_, until_s));
  if (!std::isfinite(known_.at(default_->number).final_s())) report_.default_s = 0;
  return {};
}

// What is called the best is right, also should the run end here.
Result<> TaskTuner::check_leader() {
  for (int i = 0; i < kLeadersChecked; ++i) {
    const auto order = contenders(kFaster);
    if (order.empty() || known_.at(order.front()->number).checked) break;
    FETTLE_TRY(const bool done, check(order.front(), session_.search_until_s));
    if (!done) break;
    if (std::isfinite(known_.at(order.front()->number).final_s())) break;
  }
  if (const auto order = contenders(kFaster); !order.empty())
    set_best(order.front(), known_.at(order.front()->number).final_s(), false);
  else if (report_.default_s > 0)
    set_best(default_, report_.default_s, false);
  return {};
}

// Once more, whatever is known.
Result<std::vector<MeasureResult>> TaskTuner::repeat(const std::vector<const Candidate*>& candidates, bool check,
                                                     double until_s) {
  FETTLE_TRY_VOID(use_runner());
  std::vector<std::string> traces;
  traces.reserve(candidates.size());
  for (const Candidate* candidate : candidates) traces.push_back(bench_->trace(*candidate));
  MeasureRequest request{.check = check, .timing = timing()};
  if (check) request.timing.min_samples = request.timing.max_samples = 1;
  request.race = false;
  beside_anchor(request);
  request.max_seconds = session_.left_s(until_s);
  request.should_stop = [this] { return session_.stopped(); };
  return session_.runner.measure(traces, request);
}

}  // namespace fettle
