// The search benchmark: AutoTVM's, Ansor's and MetaSchedule's ways to search, and the product's own, over one schedule,
// one record and one runner. What was measured is kept, and a run that was interrupted goes on.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "codegen/object_cache.h"
#include "cost/predict/micro_kernel_table.h"
#include "harness/paired.h"
#include "harness/report.h"
#include "harness/statistics.h"
#include "measure/local_kernel.h"
#include "measure/local_measurer.h"
#include "search/figures.h"
#include "search/measured_rows.h"
#include "search/replayed.h"
#include "search/run.h"
#include "search/side_by_side.h"
#include "tune/space/space.h"

using namespace fettle;
using namespace fettle::bench;

namespace {

std::atomic<bool> stop{false};

/// Sets `stop` when the time is up, or on Ctrl-C.
class Deadline {
 public:
  explicit Deadline(double seconds) {
    std::signal(SIGINT, [](int) { stop = true; });
    std::signal(SIGTERM, [](int) { stop = true; });
    if (seconds <= 0) return;
    thread_ = std::thread([this, seconds] {
      std::unique_lock lock(mutex_);
      if (!over_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return ended_; })) stop = true;
    });
  }
  ~Deadline() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    over_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  bool ended_ = false;
  std::thread thread_;
};

std::vector<std::string> parts_of(const std::string& list) {
  std::vector<std::string> parts;
  for (size_t at = 0; at <= list.size();) {
    const size_t comma = std::min(list.find(',', at), list.size());
    if (comma > at) parts.push_back(list.substr(at, comma - at));
    at = comma + 1;
  }
  return parts;
}

nlohmann::json curves_json(const std::vector<TaskCurves>& tasks) {
  nlohmann::json all = nlohmann::json::array();
  for (const TaskCurves& task : tasks) {
    nlohmann::json one{{"task", task.name}, {"flops", task.flops}, {"modes", nlohmann::json::object()}};
    for (const auto& [mode, curves] : task.modes)
      for (const Curve& curve : curves) {
        nlohmann::json points = nlohmann::json::array();
        for (const CurvePoint& p : curve.improvements) points.push_back({p.trial, p.seconds, p.best_s});
        one["modes"][mode].push_back({{"trials", curve.trials},
                                      {"seconds", curve.seconds},
                                      {"exhausted", curve.exhausted},
                                      {"raced_out", curve.raced_out},
                                      {"failed", curve.failed},
                                      {"tight", curve.tight},
                                      {"improvements", points}});
      }
    for (const auto& [trials, seconds] : task.peer_best_s) one["tvm"].push_back({trials, seconds});
    all.push_back(one);
  }
  return all;
}

// What the peer wrote: one line of JSON a task, {"task", "best": [[trials, seconds], …]}.
void read_peer(const std::filesystem::path& file, std::vector<TaskCurves>& tasks) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    const auto row = nlohmann::json::parse(line, nullptr, false);
    if (!row.is_object() || !row.contains("task") || !row.contains("best")) continue;
    for (TaskCurves& task : tasks)
      if (row["task"] == task.name)
        for (const auto& point : row["best"]) task.peer_best_s[point[0].get<int64_t>()] = point[1].get<double>();
  }
}

int list_tasks() {
  for (const auto* set : {&search_tasks(), &training_tasks()})
    for (const SearchTask& task : *set) {
      nlohmann::json line{{"task", task.name},
                          {"family", task.family},
                          {"op", task.op},
                          {"flops", task.flops},
                          {"numbers", task.numbers},
                          {"odd", task.odd},
                          {"training", set == &training_tasks()}};
      fmt::print("{}\n", line.dump());
    }
  return 0;
}

// Beside a matrix product, as bench-core measures it: where multiply-adds load their operands the clock is lower than
// where they do nothing else, and what is found is compared with what the machine could do at that clock.
Result<double> peak_gflops(const Target& target, int threads) {
  const auto task = std::ranges::find(search_tasks(), "matmul 512x512x512", &SearchTask::name);
  FETTLE_TRY(const Schedule product, default_schedule(task->program, std::make_shared<const Target>(target), threads));
  FETTLE_TRY(LocalKernel kernel, LocalKernel::build(product.func(), target, {.threads = threads, .huge_pages = true}));
  PeakMeter peak(threads);
  const Contender beside[] = {{"product", [&] { kernel.call(); }, task->flops}};
  FETTLE_TRY(const PairedResult timed, time_paired(beside, peak, {.min_rounds = 100, .half_width = 0}));
  return timed.peak_gflops().median;
}

int replay_strategies(const std::vector<const SearchTask*>& tasks, const SearchRun& run, int seeds,
                      const std::string& out) {
  Report report("strategies");
  const auto left_out = add_replayed(report, tasks, run, {.seeds = seeds});
  if (!left_out) {
    fmt::print(stderr, "{}\n", left_out.error().to_string());
    return 1;
  }
  fmt::print("{}", report.table());
  for (const std::string& line : *left_out) fmt::print("{}\n", line);
  if (const auto written = report.write(out); !written) {
    fmt::print(stderr, "{}\n", written.error().to_string());
    return 1;
  }
  return report.all_hold() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string only, skip, modes_text = "fettle,random,rules:random,autotvm,ansor,metaschedule", out = "build/bench",
                          model, write_rows_to;
  int64_t trials = 256, first_seed = 1;
  int seeds = 1, threads = 2;
  double budget_s = 0;
  bool list = false, measure_nothing = false, training = false, side_by_side = false, one_by_one = false,
       replay = false;
  CLI::App app(
      "Ways to search compared: best so far against trials and seconds. Exits with 1 if a figure misses its bound.");
  app.add_option("--tasks", only, "only tasks whose name contains one of these, separated by commas");
  app.add_option("--skip", skip, "not those whose name contains one of these");
  app.add_option("--modes", modes_text, "autotvm, ansor, metaschedule, fettle, random, or SPACE:STRATEGY[:COST_MODEL]")
      ->capture_default_str();
  app.add_option("--trials", trials, "of each search")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{100000}));
  app.add_option("--seeds", seeds, "searches of each task and mode")->capture_default_str()->check(CLI::Range(1, 100));
  app.add_option("--first-seed", first_seed, "the others follow")->capture_default_str();
  app.add_option("--threads", threads, "that a kernel may use")->capture_default_str()->check(CLI::Range(1, 1024));
  app.add_flag("--one-by-one", one_by_one,
               "each search to its end before the next begins, not all side by side in steps");
  app.add_option("--budget", budget_s, "seconds after which nothing new is measured; 0: none")->capture_default_str();
  app.add_option("--model", model, "cost model that each search starts from");
  app.add_option("--out", out, "folder of search.json, and of search/ with the records")->capture_default_str();
  app.add_option("--write-rows", write_rows_to, "write what bench-learning learns from, as lines of JSON");
  app.add_flag("--training", training, "the tasks that the correction of the prediction is trained on");
  app.add_flag("--side-by-side", side_by_side,
               "search no further: time what all modes found next to each other, and take the figures from that");
  app.add_flag(
      "--replay", replay,
      "search no further: all strategies on the times that searches of the space \"rules\" measured, looked up");
  app.add_flag("--report", measure_nothing, "measure nothing: the figures of what is there");
  app.add_flag("--list", list, "print the tasks, one line of JSON each");
  CLI11_PARSE(app, argc, argv);
  if (list) return list_tasks();

  SearchRun run{.target = detect_host(threads),
                .threads = threads,
                .folder = std::filesystem::path(out) / "search",
                .model = model,
                .stop = &stop};
  std::filesystem::create_directories(run.folder);
  const auto chosen = [&](const SearchTask& task) {
    const auto contains = [&](const std::string& part) { return task.name.find(part) != std::string::npos; };
    const auto wanted = parts_of(only), unwanted = parts_of(skip);
    return (wanted.empty() || std::ranges::any_of(wanted, contains)) && std::ranges::none_of(unwanted, contains);
  };
  std::vector<const SearchTask*> tasks;
  for (const SearchTask& task : training ? training_tasks() : search_tasks())
    if (chosen(task)) tasks.push_back(&task);
  std::vector<SearchMode> modes;
  for (const std::string& name : parts_of(modes_text)) {
    const auto mode = find_mode(name);
    if (!mode) {
      fmt::print(stderr, "no mode {}\n", name);
      return 2;
    }
    modes.push_back(*mode);
  }
  const auto fail_with = [](const Diagnostic& error) {
    fmt::print(stderr, "{}\n", error.to_string());
    return 1;
  };

  std::vector<std::string> problems;
  const auto table = MicroKernelTable::load_or_measure(
      run.target,
      (default_cache_folder() / ("micro-kernels-" + run.target.fingerprint().hex().substr(0, 16))).string());
  if (!table) return fail_with(table.error());
  run.micro_kernels = &*table;
  if (replay) return replay_strategies(tasks, run, seeds, out);
  if (!measure_nothing) {
    LocalMeasurerOptions measuring;
    measuring.target = run.target;
    measuring.threads = threads;
    const auto runner = LocalMeasurer::start(std::move(measuring));
    if (!runner) return fail_with(runner.error());
    const Deadline deadline(budget_s);
    // All searches side by side, in steps: an interrupted run has something of each.
    std::vector<int64_t> steps;
    for (const int64_t step : {16, 64, 256, 1000})
      if (step < trials) steps.push_back(step);
    steps.push_back(trials);
    if (side_by_side) steps.clear();
    if (one_by_one && !side_by_side) steps = {trials};
    for (const int64_t step : steps)
      for (int64_t seed = first_seed; seed < first_seed + seeds; ++seed)
        for (const SearchMode& mode : modes) {
          // Less than a batch is not worth making one.
          if (step < mode.batch && step < trials) continue;
          const auto space = make_space(mode.space);
          for (const SearchTask* task : tasks) {
            if (stop) break;
            const auto began = std::chrono::steady_clock::now();
            const auto done = search_on(*task, mode, static_cast<uint64_t>(seed), step, run, *space, **runner);
            if (!done)
              problems.push_back(
                  fmt::format("{}, {}, seed {}: {}", task->name, mode.name, seed, done.error().to_string()));
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
            const auto curve = known_curve(*task, mode, static_cast<uint64_t>(seed), run);
            if (curve && seconds > 0.05)
              fmt::print(stderr, "{:<32} {:<14} seed {} {:>5} trials {:>8.1f} s  best {:.4g} ms\n", task->name,
                         mode.name, seed, curve->trials, seconds, 1e3 * curve->best_after(INT64_MAX));
          }
        }
    for (const SearchTask* task : tasks) {
      if (!side_by_side || stop) break;
      std::vector<Curve> all;
      for (const SearchMode& mode : modes)
        for (int64_t seed = first_seed; seed < first_seed + seeds; ++seed)
          if (auto curve = known_curve(*task, mode, static_cast<uint64_t>(seed), run)) all.push_back(std::move(*curve));
      if (const auto done = time_side_by_side(*task, all, run, **runner); !done)
        problems.push_back(fmt::format("{}, side by side: {}", task->name, done.error().to_string()));
    }
  }

  std::vector<TaskCurves> curves;
  for (const SearchTask* task : tasks) {
    TaskCurves& row = curves.emplace_back();
    row.name = task->name;
    row.flops = task->flops;
    const auto times = known_side_by_side(*task, run);
    if (!times) problems.push_back(times.error().to_string());
    row.side_by_side = times && !times->empty();
    for (const SearchMode& mode : modes)
      for (int64_t seed = first_seed; seed < first_seed + seeds; ++seed) {
        auto curve = known_curve(*task, mode, static_cast<uint64_t>(seed), run);
        if (!curve)
          problems.push_back(curve.error().to_string());
        else if (curve->trials > 0)
          row.modes[mode.name].push_back(times ? with_times(*curve, *times) : std::move(*curve));
      }
  }
  read_peer(run.folder / "tvm.jsonl", curves);
  Report report("search");
  const auto peak = peak_gflops(run.target, threads);
  if (!peak) problems.push_back("the peak: " + peak.error().to_string());
  const auto missing = add_figures(report, curves, {.peak_gflops = peak.value_or(0)});
  if (!write_rows_to.empty()) {
    const auto rows = measured_searches(tasks, modes, static_cast<uint64_t>(first_seed), seeds, run);
    if (!rows) return fail_with(rows.error());
    if (const auto written = write_rows(*rows, write_rows_to); !written) return fail_with(written.error());
  }
  fmt::print("{} tasks, {} threads, peak {:.0f} GFLOP/s\n{}", tasks.size(), threads, peak.value_or(0), report.table());
  for (const std::string& line : missing) fmt::print("{}\n", line);
  for (const std::string& line : problems) fmt::print("{}\n", line);
  std::ofstream(run.folder / "curves.json") << curves_json(curves).dump(1) << '\n';
  if (const auto written = report.write(out); !written) return fail_with(written.error());
  return report.all_hold() && problems.empty() ? 0 : 1;
}
