#include "search/replayed.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <ranges>

#include "database/sqlite_database.h"
#include "generations/registry.h"
#include "harness/statistics.h"
#include "search/figures.h"
#include "search/rank_tests.h"
#include "tune/describe.h"
#include "tune/task_tuner.h"

namespace fettle::bench {
namespace {

constexpr int64_t kMostTrials = *std::ranges::max_element(kFewTrials);
constexpr size_t kLeastCommon = 3;
constexpr int64_t kAsked = 10;  // programs for each trial, whether or not they were measured
constexpr std::string_view kRandom = "random";

/// A task with what is known of it.
struct Known {
  const SearchTask* task = nullptr;
  std::map<std::string, double> seconds;  // by trace
  double best_s = 0;
};

/// log(best so far / best of all) after each of kFewTrials.
using Losses = std::array<double, std::size(kFewTrials)>;

class Replayer {
 public:
  Replayer(const SearchRun& run, const ReplayOptions& options)
      : run_(run), options_(options), target_(std::make_shared<const Target>(run.target)) {}

  /// Of a hundred random points, those whose programs were measured.
  double known_share(const Known& known) const {
    const auto model = make_prediction_only();
    Workbench bench(rule_space(), known.task->program, target_, run_.threads, *model, describe());
    int programs = 0, measured = 0;
    for (uint64_t key = 0; key < 100; ++key) {
      const Candidate* candidate = bench.make({}, hash_combine(key, 77));
      programs += candidate != nullptr;
      measured += candidate && known.seconds.contains(bench.trace(*candidate));
    }
    return programs > 0 ? static_cast<double>(measured) / programs : 0;
  }

  Result<Losses> search(const Known& known, const StrategyDef& def, uint64_t seed) const {
    const auto model = cost_models().front().make(seed);
    Workbench bench(rule_space(), known.task->program, target_, run_.threads, *model, describe());
    Learner learner(*model);
    FETTLE_TRY(const Schedule constructed,
               default_schedule(known.task->program, target_, run_.threads, run_.micro_kernels));
    const Candidate* first = bench.add(constructed);
    const auto strategy = def.make(bench, hash_combine(seed, hash_bytes(known.task->name)));
    Losses losses;
    losses.fill(INFINITY);
    double best = INFINITY;
    int64_t trials = 0, asked = 0;
    const auto note = [&](const std::vector<const Candidate*>& batch) -> Result<> {
      std::vector<Observation> observed;
      for (const Candidate* candidate : batch) {
        const auto found = known.seconds.find(bench.trace(*candidate));
        if (found == known.seconds.end()) continue;
        observed.push_back({candidate, found->second});
        best = std::min(best, found->second);
        ++trials;
        for (size_t i = 0; i < losses.size(); ++i)
          if (trials <= kFewTrials[i]) losses[i] = std::log(best / known.best_s);
      }
      strategy->observe(observed);
      return learner.learn(observed);
    };
    if (first) FETTLE_TRY_VOID(note({first}));
    while (trials < kMostTrials && asked < kAsked * kMostTrials) {
      const std::vector<const Candidate*> batch = strategy->propose(options_.batch);
      if (batch.empty()) break;
      asked += static_cast<int64_t>(batch.size());
      FETTLE_TRY_VOID(note(batch));
    }
    for (double& loss : losses) loss = std::min(loss, std::log(kMost));
    return losses;
  }

 private:
  static constexpr double kMost = 10;  // nothing was found
  DescribeFn describe() const { return cost_models().front().describe(target_, run_.threads, run_.micro_kernels); }

  const SearchRun& run_;
  const ReplayOptions& options_;
  std::shared_ptr<const Target> target_;
};

}  // namespace

std::map<std::string, double> on_one_scale(const std::vector<MeasuredBySearch>& searches) {
  const auto base = std::ranges::max_element(searches, {}, &MeasuredBySearch::size);
  std::map<std::string, std::vector<double>> whole, given_up;
  for (const MeasuredBySearch& search : searches) {
    double scale = 1;
    if (&search != &*base) {
      std::vector<double> ratios;
      for (const auto& [trace, measured] : search) {
        const auto other = base->find(trace);
        if (other == base->end() || measured.raced_out || other->second.raced_out) continue;
        ratios.push_back(other->second.seconds / measured.seconds);
      }
      if (ratios.size() < kLeastCommon) continue;
      scale = quantile(std::move(ratios), 0.5);
    }
    for (const auto& [trace, measured] : search)
      (measured.raced_out ? given_up : whole)[trace].push_back(scale * measured.seconds);
  }
  std::vector<double> twice;
  std::map<std::string, double> result;
  for (const auto& [trace, seconds] : given_up) result[trace] = std::ranges::min(seconds);
  for (const auto& [trace, seconds] : whole) {
    result[trace] = quantile(seconds, 0.5);
    if (seconds.size() > 1) twice.push_back(result[trace]);
  }
  if (twice.empty()) return result;
  const double floor = quantile(std::move(twice), 0.01);
  for (auto& [trace, seconds] : result)
    if (!whole.contains(trace) || whole.at(trace).size() < 2) seconds = std::max(seconds, floor);
  return result;
}

Result<std::map<std::string, double>> measured_space(const SearchTask& task, const SearchRun& run) {
  const TaskKey key = key_of(task, run);
  std::vector<MeasuredBySearch> searches;
  for (const auto& file : std::filesystem::directory_iterator(run.folder)) {
    const std::string name = file.path().filename().string();
    const auto is_of = [&](const char* mode) { return name.starts_with(mode); };
    if (!name.ends_with(".db") || !(is_of("fettle-") || is_of("random-") || is_of("rules+"))) continue;
    FETTLE_TRY(const auto database, open_sqlite_database(file.path()));
    FETTLE_TRY(const std::vector<Record> records, database->records(key));
    MeasuredBySearch& search = searches.emplace_back();
    for (const Record& record : records)
      if (record.ok() && record.generation >= 0)
        search.try_emplace(record.trace, MeasuredProgram{usual_seconds(record), record.raced_out});
    if (search.empty()) searches.pop_back();
  }
  return searches.empty() ? std::map<std::string, double>{} : on_one_scale(searches);
}

Result<std::vector<std::string>> add_replayed(Report& report, const std::vector<const SearchTask*>& tasks,
                                              const SearchRun& run, const ReplayOptions& options) {
  const Replayer replayer(run, options);
  std::vector<std::string> left_out;
  std::vector<Known> known;
  for (const SearchTask* task : tasks) {
    Known one{.task = task};
    FETTLE_TRY(one.seconds, measured_space(*task, run));
    const double share = one.seconds.empty() ? 0 : replayer.known_share(one);
    if (share < options.least_known || one.seconds.size() < static_cast<size_t>(kFewTrials[0])) {
      left_out.push_back(fmt::format("{}: left out, {:.0f} % of its points and {} programs were measured", task->name,
                                     100 * share, one.seconds.size()));
      continue;
    }
    one.best_s = std::ranges::min(one.seconds | std::views::values);
    known.push_back(std::move(one));
  }
  if (known.empty()) return left_out;

  std::map<std::string_view, std::vector<Losses>> losses;  // by strategy; of each task the mean over the seeds
  for (const StrategyDef& def : strategies())
    for (const Known& one : known) {
      Losses& mean = losses[def.name].emplace_back();
      mean.fill(0);
      for (int seed = 1; seed <= options.seeds; ++seed) {
        if (run.stop && run.stop->load()) return left_out;
        FETTLE_TRY(const Losses found, replayer.search(one, def, static_cast<uint64_t>(seed)));
        for (size_t i = 0; i < mean.size(); ++i) mean[i] += found[i] / options.seeds;
      }
    }
  const std::vector<Losses>& random = losses.at(kRandom);
  for (const auto& [name, own] : losses) {
    std::vector<double> whole(own.size(), 0.0);  // differences, mean over all of kFewTrials
    for (size_t i = 0; i < std::size(kFewTrials); ++i) {
      double off = 0;
      std::vector<double> differences;
      for (size_t t = 0; t < own.size(); ++t) {
        off += own[t][i] / static_cast<double>(own.size());
        differences.push_back(own[t][i] - random[t][i]);
        whole[t] += differences.back() / static_cast<double>(std::size(kFewTrials));
      }
      report.add(fmt::format("{} after {} trials: off the best, mean of {} tasks", name, kFewTrials[i], own.size()),
                 100 * std::expm1(off), "%");
      if (name != kRandom)
        report.add(fmt::format("{} over random after {} trials: p by Wilcoxon", name, kFewTrials[i]),
                   wilcoxon_p(differences), "");
    }
    if (name == kRandom) continue;
    const bool counts = own.size() >= 20 && name == "evolutionary";  // AutoTVM's is held in its own space (figures.h)
    report.add(fmt::format("{} over random after {} to {} trials: p by Wilcoxon", name, kFewTrials[0], kMostTrials),
               wilcoxon_p(whole), "", counts ? std::optional(at_most(0.05)) : std::nullopt);
  }
  return left_out;
}

}  // namespace fettle::bench
