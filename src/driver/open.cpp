#include "driver/open.h"

#include <cmath>
#include <filesystem>
#include <set>

#include "database/sqlite_database.h"
#include "driver/preference.h"
#include "ir/compare.h"
#include "measure/builder.h"
#include "schedule/reformulation.h"
#include "schedule/schedule.h"
#include "schedule/trace/trace.h"

namespace fettle {

namespace {

/// The error bound of a recorded schedule; 0 where it does not replay, which compiling tells.
double bound_of(const Func& workload, const std::string& trace, const Target& target) {
  if (trace.find("reformulate") == std::string::npos) return 0;
  const auto parsed = parse_trace(trace);
  Schedule schedule(workload);
  schedule.set_target(std::make_shared<const Target>(target));
  if (!parsed || !replay(schedule, *parsed)) return 0;
  return error_bound_of(schedule.func());
}

}  // namespace

bool is_library_path(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.ends_with(".so") || name.find(".so.") != std::string::npos;
}

std::function<std::optional<std::string>(const Func&)> best_traces(std::shared_ptr<Database> database,
                                                                   const Target& target, int threads,
                                                                   double max_error_bound) {
  return [database = std::move(database), target, threads,
          max_error_bound](const Func& workload) -> std::optional<std::string> {
    std::function<bool(const Record&)> fits;
    if (std::isfinite(max_error_bound))
      fits = [&](const Record& record) { return bound_of(workload, record.trace, target) <= max_error_bound; };
    const auto found = best_checked(*database, make_task_key(workload, target, threads, program_versions()), fits);
    if (!found || !*found) return {};
    return (*found)->trace;
  };
}

std::function<std::optional<std::string>(const Func&)> except(
    const Plan& plan, const std::vector<int>& numbers,
    std::function<std::optional<std::string>(const Func&)> find_trace) {
  std::set<std::string> kept;
  for (int number : numbers)
    if (number >= 0 && static_cast<size_t>(number) < plan.workloads.size())
      kept.insert(plan.workloads[static_cast<size_t>(number)].hash.hex());
  return
      [kept = std::move(kept), find_trace = std::move(find_trace)](const Func& workload) -> std::optional<std::string> {
        if (kept.contains(canonical_hash(workload).hex())) return {};
        return find_trace(workload);
      };
}

Result<std::shared_ptr<Database>> open_records(const std::string& path) {
  FETTLE_TRY(std::unique_ptr<Database> database, open_sqlite_database(path, {.read_only = true}));
  return std::shared_ptr<Database>(std::move(database));
}

Result<CompiledModel> compile_known(const Graph& graph, std::shared_ptr<Database> database, CompileOptions options) {
  FETTLE_TRY(const auto choice, find_choice(graph, *database, options.target, options.threads));
  if (choice && !choice->untuned) {
    options.layout = choice->layout;
    options.joined = choice->joined;
  }
  if (!choice || !choice->untuned)
    options.find_trace = best_traces(std::move(database), options.target, options.threads, options.max_error_bound);
  if (choice && !choice->untuned && !choice->defaults.empty()) {
    FETTLE_TRY(const Plan plan, make_plan(graph, {.layout = choice->layout, .joined = choice->joined}));
    options.find_trace = except(plan, choice->defaults, std::move(options.find_trace));
  }
  return compile_model(graph, options);
}

Result<CompiledModel> compile_file(const std::string& path, const OpenOptions& options, bool untuned) {
  CompileOptions compile;
  compile.target = detect_host(options.threads);
  compile.threads = compile.target.threads;
  compile.name = std::filesystem::path(path).stem().string();
  compile.warn = options.warn;
  compile.max_error_bound = options.max_error_bound;
  std::shared_ptr<Database> database;
  if (!untuned && !options.database.empty()) {
    FETTLE_TRY(database, open_records(options.database));
  }
  FETTLE_TRY(const Graph graph, load_model(path, options.shapes));
  if (database) return compile_known(graph, std::move(database), std::move(compile));
  return compile_model(graph, compile);
}

Result<Model> open_model(const std::string& path, const OpenOptions& options) {
  FettleOptions run{};
  run.threads = options.threads;
  run.pin = options.pin ? 1 : 0;
  if (is_library_path(path)) return Model::load(path, run);
  FETTLE_TRY(const CompiledModel compiled, compile_file(path, options));
  return compiled.instantiate(run);
}

}  // namespace fettle
