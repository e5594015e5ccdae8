#include "driver/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "codegen/device_def.h"
#include "database/sqlite_database.h"
#include "target/host_memory.h"

namespace fettle {
namespace {

/// Constants that lie in memory which a built model was lent become the compiled model's own: their owner may write
/// there.
Result<> own_lent_constants(const OnnxModel& model, std::vector<ConstantBytes>& constants) {
  for (ConstantBytes& constant : constants) {
    const auto holds = [&](const auto& lent) {
      const auto address = [](const auto& bytes) { return reinterpret_cast<uintptr_t>(bytes.get()); };
      const uintptr_t begin = address(lent.second.bytes), at = address(constant.bytes);
      return at >= begin && at < begin + static_cast<uintptr_t>(lent.second.size_bytes);
    };
    if (std::ranges::none_of(model.data.in_memory, holds)) continue;
    const std::shared_ptr<std::byte> own = zeroed_bytes(constant.size);
    if (!own) return fail(ErrorCode::E710, fmt::format("no memory for a constant of {} bytes", constant.size));
    std::memcpy(own.get(), constant.bytes.get(), static_cast<size_t>(constant.size));
    constant.bytes = own;
  }
  return {};
}

}  // namespace

Result<Target> target_of(const OpenOptions& options) {
  if (options.target.empty()) return detect_host(options.threads);
  FETTLE_TRY(Target target, parse_target(options.target));
  FETTLE_TRY_VOID(device_of(target));
  return target;
}

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

PassNames passes_left_out(const OpenOptions& options) {
  PassNames without = options.without;
  const auto target = target_of(options);
  if (target && target->has_threads()) without.emplace("pack_weights");
  return without;
}

Result<PlannedModel> plan_source(const ModelSource& source, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(Graph graph, load_model(source, options.shapes, options.sizes, options.states, {},
                                     passes_left_out(options), options.limits));
  return plan_graph(std::move(graph), model_name(source), options, untuned);
}

Result<PlannedModel> plan_graph(Graph graph, std::string name, const OpenOptions& options, bool untuned) {
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  CompileOptions compile;
  FETTLE_TRY(compile.target, target_of(options));
  compile.threads = compile.target.threads;
  compile.name = std::move(name);
  compile.warn = options.warn;
  compile.max_error_bound = options.max_error_bound;
  compile.kernel_sources = options.kernel_sources;
  if (untuned || options.database.empty()) return plan_model(plans, compile);
  FETTLE_TRY(std::shared_ptr<Database> database, open_records(options.database));
  if (options.workload_equality != WorkloadEquality::kStructural)
    database = make_equality_database(std::move(database), options.workload_equality);
  return plan_known(plans, std::move(database), std::move(compile));
}

Result<CompiledModel> compile_source(const ModelSource& source, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(PlannedModel planned, plan_source(source, options, untuned));
  FETTLE_TRY(BuiltModel built, build_model(std::move(planned)));
  if (const auto* model = std::get_if<OnnxModel>(&source)) FETTLE_TRY_VOID(own_lent_constants(*model, built.constants));
  return package_model(built);
}

FettleOptions run_options(const OpenOptions& options) {
  FettleOptions run{};
  run.threads = options.threads;
  run.pin = options.pin ? 1 : 0;
  run.keep_denormals = options.keep_denormals ? 1 : 0;
  return run;
}

Result<Model> open_model(const ModelSource& source, const OpenOptions& options) {
  const FettleOptions run = run_options(options);
  const auto* path = std::get_if<std::string>(&source);
  if (path && is_library_path(*path)) return Model::load(*path, run);
  FETTLE_TRY(const CompiledModel compiled, compile_source(source, options));
  return compiled.instantiate(run);
}

}  // namespace fettle
