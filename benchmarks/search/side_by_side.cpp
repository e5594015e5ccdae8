#include "search/side_by_side.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "database/sqlite_database.h"
#include "tune/space/space.h"
#include "tune/task_tuner.h"

namespace fettle::bench {
namespace {

constexpr int kRounds = 20;

Result<std::unique_ptr<Database>> open(const SearchRun& run) {
  return open_sqlite_database(run.folder / "side-by-side.db");
}

Result<SideBySide> read(Database& database, const TaskKey& key) {
  FETTLE_TRY(const std::vector<Record> records, database.records(key));
  SideBySide times;
  for (const Record& record : records)
    if (record.run == records.back().run && record.ok()) times[record.trace] = record.median_s;
  return times;
}

std::vector<std::string> worth_timing(const std::vector<Curve>& curves) {
  std::set<std::string> traces;
  for (const Curve& curve : curves) {
    const double best = curve.best_after(INT64_MAX);
    visit_contenders(curve, kConfirmed, [&](size_t, const std::vector<size_t>& contenders) {
      for (const size_t i : contenders)
        if (curve.tried[i].own_s <= kWorthTiming * best) traces.insert(curve.tried[i].trace);
    });
  }
  return {traces.begin(), traces.end()};
}

}  // namespace

Result<> time_side_by_side(const SearchTask& task, const std::vector<Curve>& curves, const SearchRun& run,
                           Runner& runner) {
  FETTLE_TRY(const auto database, open(run));
  const TaskKey key = key_of(task, run);
  FETTLE_TRY(const SideBySide known, read(*database, key));
  const std::vector<std::string> traces = worth_timing(curves);
  if (std::ranges::all_of(traces, [&](const std::string& trace) { return known.contains(trace); })) return {};
  FETTLE_TRY(const Schedule constructed, default_schedule(task.program, std::make_shared<const Target>(run.target),
                                                          run.threads, run.micro_kernels, 0));
  FETTLE_TRY_VOID(runner.set_workload(task.program, {.reference_trace = to_text(constructed.trace())}));
  std::vector<std::string> rounds;
  for (int r = 0; r < kRounds; ++r) rounds.insert(rounds.end(), traces.begin(), traces.end());
  MeasureRequest request{.timing = {.max_seconds = 0.03}};
  request.should_stop = [&] { return run.stop && run.stop->load(); };
  FETTLE_TRY(const std::vector<MeasureResult> results, runner.measure(rounds, request));
  SideBySide times;
  for (size_t i = 0; i < results.size(); ++i) {
    if (!results[i].ok()) continue;
    const double seconds = usual_seconds(results[i]);
    const auto [entry, fresh] = times.emplace(rounds[i], seconds);
    if (!fresh) entry->second = std::min(entry->second, seconds);
  }
  if (run.stop && run.stop->load()) return {};
  std::vector<Record> records;
  const uint64_t id = draw_run_id();
  for (const auto& [trace, seconds] : times) {
    Record record;
    record.task = key;
    record.trace = trace;
    record.median_s = record.min_s = seconds;
    record.repeats = kRounds;
    record.run = id;
    records.push_back(std::move(record));
  }
  return database->add_all(records);
}

Result<SideBySide> known_side_by_side(const SearchTask& task, const SearchRun& run) {
  if (!std::filesystem::exists(run.folder / "side-by-side.db")) return SideBySide{};
  FETTLE_TRY(const auto database, open(run));
  return read(*database, key_of(task, run));
}

Curve with_times(const Curve& curve, const SideBySide& times) {
  Curve result = curve;
  result.improvements.clear();
  result.traces.clear();
  const auto seconds_of = [&](const Tried& tried) {
    const auto known = times.find(tried.trace);
    return known == times.end() ? tried.own_s : known->second;
  };
  visit_contenders(curve, kConfirmed, [&](size_t last, const std::vector<size_t>& contenders) {
    const size_t best = *std::ranges::min_element(contenders, {}, [&](size_t i) { return seconds_of(curve.tried[i]); });
    const Tried& handed_out = curve.tried[best];
    if (!result.traces.empty() && result.traces.back() == handed_out.trace) return;
    result.improvements.push_back({curve.tried[last].trial, curve.tried[last].seconds, seconds_of(handed_out)});
    result.traces.push_back(handed_out.trace);
  });
  return result;
}

}  // namespace fettle::bench
