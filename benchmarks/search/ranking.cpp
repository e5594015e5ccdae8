#include "search/ranking.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "base/random.h"
#include "cost/atom_table.h"
#include "database/sqlite_database.h"
#include "measure/builder.h"
#include "tune/describe.h"

namespace fettle::bench {
namespace {

std::vector<size_t> order_of(const std::vector<double>& values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, {}, [&](size_t i) { return values[i]; });
  return order;
}

Result<> train(CostModel& model, const std::vector<MeasuredTask>& tasks, const std::string& without, size_t rows) {
  size_t all = 0;
  for (const MeasuredTask& task : tasks) all += task.seconds.size();
  // All in one, so that the model is trained once; evenly spread where there are too many.
  std::vector<CandidateFeatures> features;
  std::vector<double> seconds;
  RandomStream stream{17};
  for (const MeasuredTask& task : tasks) {
    if (task.family == without) continue;
    for (size_t i = 0; i < task.seconds.size(); ++i) {
      if (stream.uniform() * static_cast<double>(all) >= static_cast<double>(rows)) continue;
      features.push_back(task.candidates[i]);
      seconds.push_back(task.seconds[i]);
    }
  }
  return model.update(features, seconds);
}

}  // namespace

Result<std::vector<MeasuredTask>> measured_tasks(const std::vector<SearchTask>& tasks,
                                                 const std::vector<SearchMode>& modes, uint64_t first_seed, int seeds,
                                                 const SearchRun& run) {
  const auto target = std::make_shared<const Target>(run.target);
  const DescribeFn describe = describe_by_lowering(target, run.threads, run.atoms);
  std::vector<MeasuredTask> result;
  for (const SearchTask& task : tasks) {
    MeasuredTask measured{.name = task.name, .family = task.family};
    const TaskKey key = make_task_key(task.program, run.target, run.threads, program_versions());
    std::set<std::string> seen;
    for (const SearchMode& mode : modes) {
      if (mode.space != "rules") continue;
      for (int s = 0; s < seeds; ++s) {
        const auto file = records_file(run.folder, mode.name, first_seed + static_cast<uint64_t>(s));
        if (!std::filesystem::exists(file)) continue;
        FETTLE_TRY(const auto database, open_sqlite_database(file));
        FETTLE_TRY(const std::vector<Record> records, database->records(key));
        for (const Record& record : records) {
          if (!record.ok() || record.generation < 0 || !seen.insert(record.trace).second) continue;
          Schedule schedule(task.program);
          schedule.set_target(target);
          const auto trace = parse_trace(record.trace);
          if (!trace || !replay(schedule, *trace)) continue;
          auto described = describe(schedule);
          if (!described) continue;
          measured.candidates.push_back(std::move(described->features));
          measured.seconds.push_back(record.half_width <= 0.04 || record.min_s <= 0 ? record.median_s : record.min_s);
          measured.decisions.emplace_back(record.decisions.begin(), record.decisions.end());
          measured.raced_out.push_back(record.raced_out);
        }
      }
    }
    if (!measured.seconds.empty()) result.push_back(std::move(measured));
  }
  return result;
}

Ranking rank(const std::vector<double>& predicted, const std::vector<double>& seconds) {
  Ranking result{NAN, NAN, NAN};
  int64_t pairs = 0, right = 0;
  for (size_t i = 0; i < seconds.size(); ++i)
    for (size_t j = 0; j < seconds.size(); ++j) {
      if (seconds[j] < 1.02 * seconds[i]) continue;
      ++pairs;
      right += predicted[i] < predicted[j] ? 1 : 0;
    }
  if (pairs == 0) return result;
  result.accuracy = static_cast<double>(right) / static_cast<double>(pairs);
  const size_t k = seconds.size() < 32 ? std::max<size_t>(1, seconds.size() / 4) : 8;
  const auto best = order_of(seconds), chosen = order_of(predicted);
  const std::set<size_t> fastest(best.begin(), best.begin() + static_cast<std::ptrdiff_t>(k));
  size_t found = 0;
  double fastest_chosen = INFINITY;
  for (size_t i = 0; i < k; ++i) {
    found += fastest.contains(chosen[i]) ? 1 : 0;
    fastest_chosen = std::min(fastest_chosen, seconds[chosen[i]]);
  }
  result.recall = static_cast<double>(found) / static_cast<double>(k);
  result.regret = fastest_chosen / seconds[best.front()] - 1;
  return result;
}

Result<> add_ranking(Report& report, const std::vector<MeasuredTask>& training,
                     const std::vector<MeasuredTask>& tests) {
  struct Sums {
    double accuracy = 0, recall = 0, regret = 0;
    int n = 0;
  } with, alone;
  const auto add = [](Sums& sums, const Ranking& r) {
    if (std::isnan(r.accuracy)) return;
    sums.accuracy += r.accuracy;
    sums.recall += r.recall;
    sums.regret += r.regret;
    ++sums.n;
  };
  std::set<std::string> families;
  for (const MeasuredTask& test : tests) families.insert(test.family);
  for (const std::string& family : families) {
    const auto model = make_boosted_trees(0);
    FETTLE_TRY_VOID(train(*model, training, family, 20'000));
    for (const MeasuredTask& test : tests) {
      if (test.family != family) continue;
      std::vector<double> plain;
      for (const CandidateFeatures& c : test.candidates) plain.push_back(c.predicted_seconds);
      add(with, rank(model->predict(test.candidates), test.seconds));
      add(alone, rank(plain, test.seconds));
    }
  }
  if (with.n == 0) return {};
  for (const auto& [name, sums] : {std::pair("model, family held out", with), std::pair("prediction alone", alone)}) {
    const double n = sums.n;
    report.add(fmt::format("{} ({} tasks): pairs in the right order", name, sums.n), 100 * sums.accuracy / n, "%");
    report.add(fmt::format("{}: top-8 recall", name), 100 * sums.recall / n, "%");
    report.add(fmt::format("{}: regret of timing the best 8 predicted", name), 100 * sums.regret / n, "%");
  }
  return {};
}

Result<> write_rows(const std::vector<MeasuredTask>& tasks, const std::string& path) {
  std::ofstream out(path);
  for (const MeasuredTask& task : tasks)
    for (size_t i = 0; i < task.seconds.size(); ++i) {
      nlohmann::json line{{"task", task.name},
                          {"family", task.family},
                          {"predicted_s", task.candidates[i].predicted_seconds},
                          {"seconds", task.seconds[i]},
                          {"raced_out", static_cast<bool>(task.raced_out[i])},
                          {"features", task.candidates[i].values}};
      for (const auto& [address, decision] : task.decisions[i])
        line["decisions"][address] = std::vector<int64_t>(decision.begin(), decision.end());
      out << line.dump() << '\n';
    }
  out.close();
  return out ? Result<>{} : fail(ErrorCode::E702, path);
}

Result<> write_model(const std::vector<MeasuredTask>& training, size_t rows, const std::string& path) {
  const auto model = make_boosted_trees(0);
  FETTLE_TRY_VOID(train(*model, training, "", rows));
  return model->save(path);
}

}  // namespace fettle::bench
