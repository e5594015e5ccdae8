#include "driver/open.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>

#include "codegen/device_def.h"
#include "database/sqlite_database.h"
#include "target/host_memory.h"

namespace fettle {
namespace {

/// Constants that lie in memory which a built model was lent become the compiled model's own: their owner may write
/// there. `owned`: those of other targets, by where they lay.
Result<> own_lent_constants(const OnnxModel& model, std::map<const std::byte*, std::shared_ptr<const std::byte>>& owned,
                            std::vector<ConstantBytes>& constants) {
  for (ConstantBytes& constant : constants) {
    const auto holds = [&](const auto& lent) {
      const auto address = [](const auto& bytes) { return reinterpret_cast<uintptr_t>(bytes.get()); };
      const uintptr_t begin = address(lent.second.bytes), at = address(constant.bytes);
      return at >= begin && at < begin + static_cast<uintptr_t>(lent.second.size_bytes);
    };
    if (!constant.bytes || std::ranges::none_of(model.data.in_memory, holds)) continue;
    std::shared_ptr<const std::byte>& known = owned[constant.bytes.get()];
    if (!known) {
      const std::shared_ptr<std::byte> own = zeroed_bytes(constant.size);
      if (!own) return fail(ErrorCode::E710, fmt::format("no memory for a constant of {} bytes", constant.size));
      std::memcpy(own.get(), constant.bytes.get(), static_cast<size_t>(constant.size));
      known = own;
    }
    constant.bytes = known;
  }
  return {};
}

/// Of another machine it is not known how many threads it has: enough, where their number is given.
Result<Target> named_target(std::string_view name, const OpenOptions& options) {
  FETTLE_TRY(Target target, parse_target(name));
  FETTLE_TRY_VOID(device_of(target));
  const int streams = std::max(options.streams, 1);
  if (target.kind != "llvm") return share_of(std::move(target), streams);
  const bool is_here = target.fingerprint() == detect_host().fingerprint();
  target.threads = options.threads > 0 && !is_here ? streams * options.threads : available_threads();
  return share_of(std::move(target), streams, options.threads);
}

/// Vectors first, then instruction sets.
std::pair<int, int64_t> strength(const Target& target) {
  return {target.vector_bits, std::ranges::count(target.features, '+')};
}

}  // namespace

Result<Target> target_of(const OpenOptions& options) {
  if (options.target.empty()) return share_of(detect_host(), std::max(options.streams, 1), options.threads);
  if (options.target.find(',') != std::string::npos)
    return fail(ErrorCode::E709, "only `compile` takes several targets", options.target);
  return named_target(options.target, options);
}

Result<std::vector<NamedTarget>> targets_of(const OpenOptions& options) {
  std::vector<NamedTarget> targets;
  if (options.target.find(',') == std::string::npos) {
    FETTLE_TRY(Target target, target_of(options));
    targets.push_back({options.target, std::move(target)});
    return targets;
  }
  std::string_view left = options.target;
  for (size_t end = 0; end != std::string_view::npos; left.remove_prefix(std::min(end + 1, left.size()))) {
    end = left.find(',');
    const std::string name(left.substr(0, end));
    if (name.empty()) return fail(ErrorCode::E709, "a target of several has no name", options.target);
    FETTLE_TRY(Target target, named_target(name, options));
    if (target.kind != "llvm" || target.arch != "x86_64")
      return fail(ErrorCode::E709,
                  fmt::format("{} is no x86-64 processor: several targets are levels of one processor; compile a file "
                              "for {} alone",
                              name, name),
                  options.target);
    const auto same = [&](const NamedTarget& other) { return other.target.feature_key() == target.feature_key(); };
    if (std::ranges::none_of(targets, same)) targets.push_back({name, std::move(target)});
  }
  std::ranges::stable_sort(targets, std::greater(), [](const NamedTarget& one) { return strength(one.target); });
  return targets;
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

PassNames passes_left_out(const Target& target) {
  PassNames without;
  if (target.has_threads()) without.emplace("pack_weights");
  if (target.has_threads() || target.threads != 1) without.emplace("join_sums");
  return without;
}

PassNames passes_left_out(const OpenOptions& options) {
  PassNames without = options.without;
  if (const auto targets = targets_of(options)) without.merge(passes_left_out(targets->front().target));
  return without;
}

Result<PlannedModel> plan_source(const ModelSource& source, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(Graph graph, load_model(source, options.shapes, options.sizes, options.states, {},
                                     passes_left_out(options), options.limits));
  note_function(source, graph, options.warn);
  return plan_graph(std::move(graph), model_name(source), options, untuned);
}

namespace {

Result<PlannedModel> plan_for(Plans& plans, const NamedTarget& named, std::string name, const OpenOptions& options,
                              bool untuned) {
  CompileOptions compile;
  compile.target = named.target;
  compile.target_name = named.name;
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

}  // namespace

Result<PlannedModel> plan_graph(Graph graph, std::string name, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(Target target, target_of(options));
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  return plan_for(plans, {options.target, std::move(target)}, std::move(name), options, untuned);
}

Result<CompiledModel> compile_source(const ModelSource& source, const OpenOptions& options, bool untuned) {
  FETTLE_TRY(Graph graph, load_model(source, options.shapes, options.sizes, options.states, {},
                                     passes_left_out(options), options.limits));
  note_function(source, graph, options.warn);
  FETTLE_TRY(const std::vector<NamedTarget> targets, targets_of(options));
  if (targets.size() > 1 && !options.kernel_sources.empty())
    return fail(ErrorCode::E709, "kernels of others are made for one machine; name one target", options.target);
  const Target& first = targets.front().target;
  if (first.kind == "llvm" && first.arch != "x86_64")
    return fail(
        ErrorCode::E709,
        fmt::format("libraries hold x86-64 code; `fettle inspect --task N --asm` shows that for {}", first.arch),
        options.target);
  const bool packs_late = targets.size() > 1 || !check_runs_here(first);
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  ConstantPool pool;
  std::map<const std::byte*, std::shared_ptr<const std::byte>> owned;
  std::vector<CompiledModel> made;
  for (const NamedTarget& target : targets) {
    FETTLE_TRY(PlannedModel planned, plan_for(plans, target, model_name(source), options, untuned));
    FETTLE_TRY(BuiltModel built, build_model(std::move(planned), packs_late ? &pool : nullptr));
    if (const auto* model = std::get_if<OnnxModel>(&source))
      FETTLE_TRY_VOID(own_lent_constants(*model, owned, built.constants));
    FETTLE_TRY(CompiledModel compiled, package_model(built));
    made.push_back(std::move(compiled));
  }
  return CompiledModel::joined(std::move(made));
}

FettleOptions run_options(const OpenOptions& options) {
  FettleOptions run{};
  run.threads = options.threads;
  run.streams = options.streams;
  run.pin = options.pin ? 1 : 0;
  run.keep_denormals = options.keep_denormals ? 1 : 0;
  run.host_team = options.host_team;
  return run;
}

Result<Model> open_model(const ModelSource& source, const OpenOptions& options) {
  const FettleOptions run = run_options(options);
  const auto* file = std::get_if<ModelFile>(&source);
  if (file && is_library_path(file->path)) {
    if (!file->function.empty())
      return fail(ErrorCode::E709, "a compiled model is one function: it has no others to choose from", file->path);
    return Model::load(file->path, run, options.target);
  }
  FETTLE_TRY(const CompiledModel compiled, compile_source(source, options));
  return compiled.instantiate(run);
}

}  // namespace fettle
