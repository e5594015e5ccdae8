#include "driver/open.h"

#include <filesystem>

#include "database/sqlite_database.h"
#include "driver/preference.h"
#include "measure/builder.h"

namespace fettle {

bool is_library_path(const std::string& path) {
  const std::string name = std::filesystem::path(path).filename().string();
  return name.ends_with(".so") || name.find(".so.") != std::string::npos;
}

std::function<std::optional<std::string>(const Func&)> best_traces(std::shared_ptr<Database> database,
                                                                   const Target& target, int threads) {
  return [database = std::move(database), target, threads](const Func& workload) -> std::optional<std::string> {
    const auto found = best_checked(*database, make_task_key(workload, target, threads, program_versions()));
    if (!found || !*found) return {};
    return (*found)->trace;
  };
}

Result<std::shared_ptr<Database>> open_records(const std::string& path) {
  FETTLE_TRY(std::unique_ptr<Database> database, open_sqlite_database(path, {.read_only = true}));
  return std::shared_ptr<Database>(std::move(database));
}

Result<CompiledModel> compile_known(const Graph& graph, std::shared_ptr<Database> database, CompileOptions options) {
  FETTLE_TRY(const auto choice, find_choice(graph, *database, options.target, options.threads));
  if (choice && !choice->untuned) options.layout = choice->layout;
  if (!choice || !choice->untuned)
    options.find_trace = best_traces(std::move(database), options.target, options.threads);
  return compile_model(graph, options);
}

Result<CompiledModel> compile_file(const std::string& path, const OpenOptions& options, bool untuned) {
  CompileOptions compile;
  compile.target = detect_host(options.threads);
  compile.threads = compile.target.threads;
  compile.name = std::filesystem::path(path).stem().string();
  compile.warn = options.warn;
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
