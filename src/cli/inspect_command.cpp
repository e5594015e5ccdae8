#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "cli/command.h"
#include "cli/inspect_stages.h"
#include "codegen/c/c_codegen.h"
#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device_def.h"
#include "codegen/llvm/llvm_codegen.h"
#include "codegen/opencl/opencl_codegen.h"
#include "driver/candidates.h"
#include "driver/open.h"
#include "graph/graph.h"
#include "graph/op.h"
#include "ir/text.h"
#include "lower/device/device.h"
#include "lower/lower.h"
#include "lower/passes/passes.h"
#include "rt/targets.h"
#include "rt/tensor.h"
#include "runtime/library.h"
#include "runtime/origins.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  std::string target, database, task, after;
  double max_error = std::numeric_limits<double>::infinity();
  KernelSources vendor;
  int threads = 0, streams = 0;
  InputShapes shapes;
  OpenSizes sizes;
  PassNames without;
  Limits limits;
  ModelStates states;
  bool graph = false, tasks = false, candidates = false, trace = false, ir = false, assembly = false, c = false,
       json = false;
};

Report describe_library(const FettleModelInfo& info) {
  Report report;
  const auto tensors = [](const FettleTensor* list, int32_t count) {
    std::vector<const FettleTensor*> all;
    for (int32_t i = 0; i < count; ++i) all.push_back(rt::nth(list, i));
    return json_list(all, [](const FettleTensor* tensor) -> nlohmann::json {
      return {{"name", tensor->name}, {"type", tensor_type_to_string(*tensor)}};
    });
  };
  int64_t constant_bytes = 0, packed_bytes = 0;
  for (int32_t i = 0; i < info.n_constants; ++i) {
    const FettleTensor& constant = *rt::nth(info.constants, i);
    (constant.data ? constant_bytes : packed_bytes) += fettle_tensor_bytes(&constant);
  }
  nlohmann::json targets = nlohmann::json::array();
  std::string target_text;
  for (int32_t i = 0; i < fettle_count_targets(&info); ++i) {
    const FettleModelInfo& target = *info.targets[i];
    targets.push_back({{"name", target.target}, {"features", target.target_features}, {"taken", &target == &info}});
    target_text += (i ? ", " : "targets ") + std::string(target.target) + (&target == &info ? " (taken here)" : "");
  }
  if (!target_text.empty()) target_text += "\n";
  nlohmann::json kernels = nlohmann::json::array();
  for (int32_t i = 0; i < info.n_kernels; ++i)
    kernels.push_back({{"name", info.kernel_names[i]}, {"nodes", origins_json(info.kernel_origins[i])}});
  nlohmann::json states = nlohmann::json::array();
  for (int32_t i = 0; i < info.n_states; ++i) states.push_back(tensors(rt::nth(info.states, i)->tensor, 1)[0]);
  nlohmann::json structures = nlohmann::json::array();
  std::string structures_text;
  for (int32_t i = 0; i < info.n_structures; ++i) {
    const FettleStructure& made = *rt::nth(info.structures, i);
    nlohmann::json parts = nlohmann::json::array();
    std::string names;
    for (int32_t k = made.first_tensor; k < made.first_tensor + made.n_tensors; ++k) {
      const char* name = rt::nth(made.is_output ? info.outputs : info.inputs, k)->name;
      parts.push_back(name);
      names += (names.empty() ? "" : ", ") + std::string(name);
    }
    const char* where = made.is_output ? "output" : "input";
    structures.push_back({{"name", made.name}, {"type", made.type}, {"is", where}, {"tensors", parts}});
    structures_text += fmt::format("{:<7} {} {}: {}\n", where, made.name, made.type, names);
  }
  report.json = {{"name", info.name},
                 {"compiler", info.compiler},
                 {"target", info.target_cpu},
                 {"device", info.device == 0 ? "cpu" : info.target_cpu},
                 {"features", info.target_features},
                 {"targets", targets},
                 {"threads", info.default_threads},
                 {"streams", std::max(info.default_streams, 1)},
                 {"arena_bytes", info.arena_bytes},
                 {"constant_bytes", constant_bytes},
                 {"packed_bytes", packed_bytes},
                 {"inputs", tensors(info.inputs, info.n_inputs)},
                 {"outputs", tensors(info.outputs, info.n_outputs)},
                 {"states", states},
                 {"structures", structures},
                 {"kernels", kernels}};
  report.text = fmt::format("{}, compiled by {} for {} and {} threads{}\n", info.name, info.compiler, info.target_cpu,
                            info.default_threads,
                            info.default_streams > 1 ? fmt::format(", {} streams", info.default_streams) : "");
  report.text += target_text;
  const auto add = [&](const char* what, const FettleTensor& tensor) {
    report.text += fmt::format("{:<7} {} {}\n", what, tensor.name, tensor_type_to_string(tensor));
  };
  for (int32_t i = 0; i < info.n_inputs; ++i) add("input", *rt::nth(info.inputs, i));
  for (int32_t i = 0; i < info.n_outputs; ++i) add("output", *rt::nth(info.outputs, i));
  for (int32_t i = 0; i < info.n_states; ++i) add("state", *rt::nth(info.states, i)->tensor);
  report.text += structures_text;
  const std::string packed = packed_bytes == 0 ? ""
                                               : fmt::format(", packed to {:.1f} MB when it is opened",
                                                             static_cast<double>(packed_bytes) * 1e-6);
  report.text +=
      fmt::format("{} kernels, {:.1f} MB of constants{}, {:.1f} MB of working memory\n", info.n_kernels,
                  static_cast<double>(constant_bytes) * 1e-6, packed, static_cast<double>(info.arena_bytes) * 1e-6);
  for (int32_t i = 0; i < info.n_kernels; ++i) {
    const std::string origins = origins_to_string(info.kernel_origins[i], SIZE_MAX);
    report.text += fmt::format("  {}{}\n", info.kernel_names[i], origins.empty() ? "" : ", from " + origins);
  }
  report.text = wrapped_lines(report.text, 4);
  return report;
}

Result<const TaskInfo*> find_task(const std::vector<TaskInfo>& tasks, const std::string& wanted) {
  for (size_t i = 0; i < tasks.size(); ++i)
    if (std::to_string(i) == wanted || (wanted.size() >= 4 && tasks[i].hash.starts_with(wanted))) return &tasks[i];
  return fail(ErrorCode::E709, fmt::format("there is no task '{}'; see --tasks", wanted), "--task");
}

/// The same of a task whose kernels run on a GPU: all kernels and how they are launched, their source text, and, of
/// CUDA's, what NVRTC makes of it.
Result<std::string> show_gpu_code(const Schedule& schedule, const Target& target, const Options& options) {
  const PrologueSplit split = split_prologue(schedule.func());  // which packs constants, on the host
  FETTLE_TRY(const DeviceProgram program, lower_for_device(split.main, target));
  if (options.ir) return to_text(program);
  const bool is_cuda = target.kind == cuda_device.kind;
  FETTLE_TRY(std::string source, is_cuda ? emit_cuda(program) : emit_opencl(program));
  if (options.c) return source;
  if (!is_cuda) return fail(ErrorCode::E709, "the driver of the device makes its machine code; see --c", "--asm");
  return compile_cuda(source, "compute_" + target.cpu.substr(target.cpu.find('_') + 1), {"--fmad=true"});
}

/// The code of one task, as --ir, --c and --asm show it.
Result<std::string> show_code(const TaskInfo& task, const Target& target, const Options& options) {
  FETTLE_TRY(const Schedule schedule, replayed_schedule(task.workload, task.trace, target));
  if (target.has_threads()) return show_gpu_code(schedule, target, options);
  if (options.ir && !options.assembly) {
    FETTLE_TRY(const LoweredKernel lowered, lower(schedule.func(), target));
    std::string text = to_text(lowered.kernel);
    if (!lowered.prologue.entry.empty()) text += "\n" + to_text(lowered.prologue);
    return text;
  }
  if (options.c) {
    // One file: the kernel and, if there is one, the prologue that packs its constants.
    FETTLE_TRY(const LoweredKernel lowered, lower(schedule.func(), target, {.pipeline = Pipeline::kScalar}));
    IrModule both = lowered.kernel;
    both.funcs.insert(lowered.prologue.funcs.begin(), lowered.prologue.funcs.end());
    COptions c;
    c.entry_name = "kernel";
    if (!lowered.prologue.entry.empty()) c.more_entries.insert(lowered.prologue.entry);
    return emit_c(both, target, c);
  }
  FETTLE_TRY(const LoweredKernel lowered, lower(schedule.func(), target));
  return emit_assembly(lowered.kernel, target, {.entry_name = "kernel"});
}

nlohmann::json calls_json(const TaskInfo& task) {
  return json_list(task.calls, [](const TaskCall& call) -> nlohmann::json {
    return {{"name", call.name}, {"nodes", provenance_json(call.provenance)}};
  });
}

/// Which nodes of the model a task does the work of, as comments: one line a call.
std::string calls_text(const TaskInfo& task) {
  std::string text;
  for (const TaskCall& call : task.calls)
    text += fmt::format("# {}{}\n", call.name, call.provenance.empty() ? "" : ", from " + to_text(call.provenance));
  return text;
}

nlohmann::json graph_json(const Graph& graph) {
  const auto name = [](const Value* input) { return input ? nlohmann::json(input->name) : nlohmann::json(); };
  const auto typed = [](const Value* output) -> nlohmann::json {
    return {{"name", output->name}, {"type", output->type ? output->type->to_string() : "?"}};
  };
  return json_list(graph.nodes(), [&](const Node* node) -> nlohmann::json {
    return {{"name", node->name},
            {"op", node->op->name},
            {"inputs", json_list(node->inputs, name)},
            {"outputs", json_list(node->outputs, typed)},
            {"nodes", provenance_json(node->provenance)}};
  });
}

/// How far results may be from those of the program as it is written, where that is more than another order.
std::string numerics_text(const TaskInfo& task) {
  if (task.error_bound == 0) return "";
  return fmt::format("; {} within {:.0f} epsilon", task.numerics, std::ceil(task.error_bound));
}

Report list_tasks(const std::vector<TaskInfo>& tasks) {
  constexpr size_t kNamed = 3;
  Report report;
  report.json["tasks"] = nlohmann::json::array();
  report.text = fmt::format("{:>4} {:<8} {:>5}  {:<7} program\n", "task", "hash", "calls", "");
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskInfo& task = tasks[i];
    report.json["tasks"].push_back({{"index", i},
                                    {"task", task.hash},
                                    {"name", task.name},
                                    {"count", task.count},
                                    {"calls", calls_json(task)},
                                    {"tuned", task.tuned},
                                    {"numerics", task.numerics},
                                    {"error_bound", task.error_bound},
                                    {"source", task.source}});
    const TaskCall& first = task.calls.front();
    report.text += fmt::format("{:>4} {:<8} {:>5}  {:<7} {}{}{}{}\n", i, task.hash.substr(0, 8), task.count,
                               task.tuned ? "tuned" : "default", task.name,
                               first.provenance.empty() ? "" : " from " + to_text(first.provenance, kNamed),
                               numerics_text(task), task.source.empty() ? "" : "; by " + task.source);
  }
  report.text = fitting_lines(report.text);
  return report;
}

/// Fettle's kernel of each task beside what libraries offer.
Result<Report> list_candidates(const PlannedModel& model, KernelSources sources) {
  if (sources.empty()) sources = kernel_sources();
  FETTLE_TRY(const std::vector<TaskCandidates> all, time_candidates(model, sources));
  const std::vector<TaskInfo> tasks = model.tasks();
  Report report;
  report.json["candidates"] = nlohmann::json::array();
  report.text = fmt::format("{:>4} {:<8} {:>5} {:>10} {:>10} {:>6}  program\n", "task", "hash", "calls", "own us",
                            "offer us", "ratio");
  double own_s = 0, best_s = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const TaskInfo& task = tasks[i];
    nlohmann::json offers = nlohmann::json::array();
    double least_s = all[i].own_s;
    for (const TaskOffer& offer : all[i].offers) {
      const bool declines = offer.kernel.empty();
      if (!declines) least_s = std::min(least_s, offer.seconds);
      offers.push_back({{"source", offer.source},
                        {"kernel", offer.kernel},
                        {"us", declines ? nlohmann::json() : nlohmann::json(offer.seconds * 1e6)},
                        {"declined", offer.declined}});
      const std::string line =
          fmt::format("{:>4} {:<8} {:>5} {:>10.1f} {:>10} {:>6}  {}: {}{}", i, task.hash.substr(0, 8), task.count,
                      all[i].own_s * 1e6, declines ? "-" : fmt::format("{:.1f}", offer.seconds * 1e6),
                      declines ? "-" : fmt::format("{:.2f}", all[i].own_s / offer.seconds), task.name, offer.source,
                      declines ? " declines: " + offer.declined : " " + offer.kernel);
      report.text += wrapped(line, 51) + "\n";
    }
    own_s += task.count * all[i].own_s;
    best_s += task.count * least_s;
    report.json["candidates"].push_back({{"index", i},
                                         {"task", task.hash},
                                         {"name", task.name},
                                         {"count", task.count},
                                         {"tuned", task.tuned && task.source.empty()},
                                         {"own_us", all[i].own_s * 1e6},
                                         {"offers", offers}});
  }
  report.json["own_us"] = own_s * 1e6;
  report.json["best_us"] = best_s * 1e6;
  report.text += fmt::format("all calls: {:.1f} us by Fettle's own, {:.1f} us by the faster of each task\n",
                             own_s * 1e6, best_s * 1e6);
  return report;
}

Result<Report> inspect(const Options& options) {
  const bool views = options.graph || options.tasks || options.candidates || options.trace || options.ir || options.c ||
                     options.assembly || !options.task.empty() || !options.after.empty();
  if (is_library_path(options.model.path)) {
    if (views || !options.model.function.empty())
      return fail(ErrorCode::E709, "a compiled model has none of these; give the model's file");
    FETTLE_TRY(const std::shared_ptr<const FettleModelInfo> info, load_library(options.model.path, options.target));
    return describe_library(*info);
  }
  Report report;
  if (!options.after.empty() && options.task.empty()) {
    FETTLE_TRY(report.text, graph_after(options.after, options.model, options.shapes, options.sizes, options.limits));
    report.json = {{"after", options.after}, {"graph", report.text}};
    return report;
  }
  if (options.graph) {
    FETTLE_TRY(const Graph graph, load_model(options.model, options.shapes, options.sizes, {}, {},
                                             passes_left_out({.threads = options.threads,
                                                              .streams = options.streams,
                                                              .target = options.target,
                                                              .without = options.without}),
                                             options.limits));
    note_function(options.model, graph, progress);
    report.text = to_text(graph, true);
    report.json = {{"graph", report.text}, {"nodes", graph_json(graph)}};
    return report;
  }
  FETTLE_TRY(const PlannedModel model, plan_source(options.model, {.threads = options.threads,
                                                                   .streams = options.streams,
                                                                   .target = options.target,
                                                                   .shapes = options.shapes,
                                                                   .database = database_to_read(options.database),
                                                                   .warn = progress,
                                                                   .max_error_bound = options.max_error,
                                                                   .sizes = options.sizes,
                                                                   .states = options.states,
                                                                   .without = options.without,
                                                                   .limits = options.limits,
                                                                   .kernel_sources = options.vendor}));
  if (options.candidates) return list_candidates(model, options.vendor);
  const std::vector<TaskInfo> task_list = model.tasks();
  if (!options.task.empty() || options.trace || options.ir || options.c || options.assembly) {
    if (options.task.empty()) return fail(ErrorCode::E709, "--trace, --ir, --c and --asm are of a task; give --task");
    FETTLE_TRY(const TaskInfo* task, find_task(task_list, options.task));
    if (!options.after.empty()) {
      FETTLE_TRY(report.text, task_after(options.after, *task, model.options.target));
      report.json["after"] = options.after;
      report.json["ir"] = report.text;
    } else if (options.ir || options.c || options.assembly) {
      FETTLE_TRY(report.text, show_code(*task, model.options.target, options));
      report.json[options.assembly ? "asm" : options.c ? "c" : "ir"] = report.text;
    } else {
      report.text = options.trace ? task->trace : task->workload;
      report.json[options.trace ? "trace" : "workload"] = report.text;
    }
    report.text = calls_text(*task) + report.text;
    report.json["task"] = task->hash;
    report.json["name"] = task->name;
    report.json["calls"] = calls_json(*task);
    report.json["tuned"] = task->tuned;
    report.json["numerics"] = task->numerics;
    report.json["error_bound"] = task->error_bound;
    report.json["source"] = task->source;
    return report;
  }
  if (options.tasks) return list_tasks(task_list);
  const int64_t weight_bytes = model.constants.weight_bytes, constant_bytes = model.constants.stored_bytes();
  const std::string operators = histogram(*model.graph);
  report.text =
      wrapped_lines(fmt::format("{}: {}\n{}weights {} bytes, stored as {} bytes of constants\n", options.model.path,
                                operators, to_text(model.plan), weight_bytes, constant_bytes),
                    6);
  if (const Target& target = model.options.target; target.has_threads()) {
    report.text +=
        fmt::format("kernels run on {} {}; the CPU reads sizes and conditions, and calls {} host functions\n",
                    target.kind, target.cpu, model.plan.host_calls.size());
  }
  report.json = {{"operators", operators},       {"nodes", model.graph->nodes().size()},
                 {"tasks", task_list.size()},    {"arena_bytes", model.arena_bytes()},
                 {"weight_bytes", weight_bytes}, {"constant_bytes", constant_bytes}};
  add_function_json(report.json, model.graph->function());
  return report;
}

}  // namespace

Command add_inspect_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "inspect", "Show what a model becomes: its graph, tasks, schedules and code",
                             "fettle inspect model.onnx --task 3 --asm", &options->json);
  add_model(made, &options->model, true);
  auto* graph = made->add_flag("--graph", options->graph, "the graph after all passes");
  auto* tasks = made->add_flag("--tasks", options->tasks, "the tasks: pieces of work to be tuned");
  auto* candidates = made->add_flag("--candidates", options->candidates,
                                    "each task's kernel timed beside what libraries offer for it, or why they offer "
                                    "nothing");
  auto* task =
      made->add_option("--task", options->task, "one task's program, by its number or the beginning of its hash")
          ->type_name("T");
  auto* trace = made->add_flag("--trace", options->trace, "its schedule");
  auto* ir = made->add_flag("--ir", options->ir, "its lowered program");
  auto* c = made->add_flag("--c", options->c, "its code in C11, without vectors, for any compiler");
  auto* assembly = made->add_flag("--asm", options->assembly, "its machine code");
  auto* after = made->add_option("--after", options->after,
                                 "what a pass over the graph leaves; with --task, a pass of lowering, or a step of the "
                                 "schedule, by its number or its primitive")
                    ->type_name("PASS");
  after->excludes(graph)->excludes(tasks)->excludes(trace)->excludes(ir)->excludes(c)->excludes(assembly);
  candidates->excludes(graph)->excludes(tasks)->excludes(task)->excludes(after);
  graph->excludes(tasks)->excludes(task);
  tasks->excludes(task);
  trace->excludes(ir)->excludes(c)->excludes(assembly);
  ir->excludes(c)->excludes(assembly);
  c->excludes(assembly);
  made->add_option("--db", options->database, "records of tuning")->type_name("FILE");
  add_no_pass(made, &options->without);
  add_limits(made, &options->limits);
  add_max_error(made, &options->max_error);
  add_vendor(made, &options->vendor);
  add_target(made, &options->target);
  add_threads(made, &options->threads);
  candidates->excludes(add_streams(made, &options->streams));
  add_shapes(made, &options->shapes);
  add_sizes(made, &options->sizes);
  add_states(made, &options->states);
  return {made, [options] { return inspect(*options); }, &options->json};
}

}  // namespace fettle::cli
