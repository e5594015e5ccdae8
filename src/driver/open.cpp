#include "driver/open.h"

#include <filesystem>

#include "database/sqlite_database.h"

namespace fettle {

bool is_library_path(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  const size_t version = name.find_last_not_of("0123456789.");
  name.resize(version == std::string::npos ? 0 : version + 1);
  return name.ends_with(".so");
}

Result<std::shared_ptr<Database>> open_records(const std::string& path) {
  FETTLE_TRY(std::unique_ptr<Database> database, open_sqlite_database(path, {.read_only = true}));
  return std::shared_ptr<Database>(std::move(database));
}

Result<PlannedModel> plan_file(const std::string& path, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(Graph graph,
             load_model(path, options.shapes, options.sizes, options.states, {}, options.without, options.limits));
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  CompileOptions compile;
  compile.target = detect_host(options.threads);
  compile.threads = compile.target.threads;
  compile.name = std::filesystem::path(path).stem().string();
  compile.warn = options.warn;
  compile.max_error_bound = options.max_error_bound;
  if (untuned || options.database.empty()) return plan_model(plans, compile);
  FETTLE_TRY(std::shared_ptr<Database> database, open_records(options.database));
  if (options.workload_equality != WorkloadEquality::kStructural)
    database = make_equality_database(std::move(database), options.workload_equality);
  return plan_known(plans, std::move(database), std::move(compile));
}

Result<CompiledModel> compile_file(const std::string& path, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(PlannedModel planned, plan_file(path, options, untuned));
  FETTLE_TRY(const BuiltModel built, build_model(std::move(planned)));
  return package_model(built);
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
