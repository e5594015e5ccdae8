#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "driver/open.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string target, out, database;
  int threads = 0, streams = 0;
  InputShapes shapes;
  OpenSizes sizes;
  PassNames without;
  Limits limits;
  ModelStates states;
  bool untuned = false, json = false;
  double max_error = std::numeric_limits<double>::infinity();
  KernelSources vendor;
  WorkloadEquality workload_equality = WorkloadEquality::kStructural;
};

Result<Report> compile(const Options& options) {
  const auto begin = std::chrono::steady_clock::now();
  const std::string database = options.untuned ? std::string() : database_to_read(options.database);
  FETTLE_TRY(const CompiledModel model, compile_source(options.model,
                                                       {.threads = options.threads,
                                                        .streams = options.streams,
                                                        .target = options.target,
                                                        .shapes = options.shapes,
                                                        .database = database,
                                                        .warn = progress,
                                                        .max_error_bound = options.max_error,
                                                        .workload_equality = options.workload_equality,
                                                        .sizes = options.sizes,
                                                        .states = options.states,
                                                        .without = options.without,
                                                        .limits = options.limits,
                                                        .kernel_sources = options.vendor},
                                                       options.untuned));
  FETTLE_TRY_VOID(model.write(options.out));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  int tuned = 0, calls = 0;
  for (const TaskInfo& task : model.tasks()) {
    tuned += task.tuned;
    calls += task.count;
  }
  std::filesystem::path header = options.out;
  header.replace_extension(".h");
  std::error_code ignored;
  Report report;
  report.json = {{"file", options.out},
                 {"header", header.string()},
                 {"bytes", std::filesystem::file_size(options.out, ignored)},
                 {"targets", model.targets()},
                 {"kernels", calls},
                 {"tasks", model.tasks().size()},
                 {"tuned_tasks", tuned},
                 {"arena_bytes", model.arena_bytes()},
                 {"constant_bytes", model.constant_bytes()},
                 {"seconds", seconds}};
  add_function_json(report.json, model.function());
  const std::vector<std::string> targets = model.targets();
  if (targets.size() > 1)
    report.text = wrapped(fmt::format("for {}; of the first that runs here:", fmt::join(targets, ", ")), 2) + "\n";
  report.text += wrapped(
      fmt::format("{} and {}: {} kernels of {} tasks, {} of them tuned; {:.1f} MB of constants, {:.1f} MB of working "
                  "memory; {:.1f} s",
                  options.out, header.string(), calls, model.tasks().size(), tuned,
                  static_cast<double>(model.constant_bytes()) * 1e-6, static_cast<double>(model.arena_bytes()) * 1e-6,
                  seconds),
      2);
  report.text += "\n";
  return report;
}

}  // namespace

Command add_compile_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "compile", "Compile a model into a shared library and a C header",
                             "fettle compile model.onnx -o model.so --shape x=1,3,48,320", &options->json);
  add_model(made, &options->model, false);
  made->add_option("-o,--output", options->out, "the library; the header lies beside it")
      ->required()
      ->type_name("OUT.so");
  auto* database = made->add_option("--db", options->database, "records of tuning")->type_name("FILE");
  made->add_flag("--untuned", options->untuned, "ignore all records")->excludes(database);
  add_workload_equality(made, &options->workload_equality, 3);
  add_max_error(made, &options->max_error);
  add_vendor(made, &options->vendor);
  add_threads(made, &options->threads);
  add_streams(made, &options->streams);
  add_targets(made, &options->target);
  add_shapes(made, &options->shapes);
  add_sizes(made, &options->sizes);
  add_no_pass(made, &options->without);
  add_limits(made, &options->limits);
  add_states(made, &options->states);
  return {made, [options] { return compile(*options); }, &options->json};
}

}  // namespace fettle::cli
