#pragma once
// What subcommands share: their options' spelling, where output goes, how they end.

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/options.h"
#include "database/database.h"
#include "driver/load.h"
#include "driver/open.h"
#include "generations/metaschedule/workload_equality.h"
#include "runtime/tensor.h"
#include "target/target.h"

namespace fettle::cli {

/// Exit statuses.
inline constexpr int kDone = 0;
inline constexpr int kCouldNot = 1;
inline constexpr int kWrongUsage = 2;

/// A subcommand's result: what --json prints, and what people read (may be empty).
struct Report {
  nlohmann::json json = nlohmann::json::object();
  std::string text;
  int status = kDone;
};

/// A subcommand: adds itself and its options to the app, and gives what to do when it was chosen.
struct Command {
  App* app = nullptr;
  std::function<Result<Report>()> run;
  bool* json = nullptr;
};
using AddCommand = Command (*)(App& app);

Command add_tune_command(App& app);
Command add_compile_command(App& app);
Command add_quantize_command(App& app);
Command add_run_command(App& app);
Command add_trace_command(App& app);
Command add_bench_command(App& app);
Command add_check_command(App& app);
Command add_convert_command(App& app);
Command add_inspect_command(App& app);
Command add_report_command(App& app);
Command add_doctor_command(App& app);
Command add_explain_command(App& app);
Command add_puzzle_command(App& app);
Command add_top_command(App& app);
Command add_completion_command(App& app);
Command add_tracker_command(App& app);
Command add_device_command(App& app);
std::vector<Command> add_db_commands(App& app);
std::vector<Command> add_cache_commands(App& app);

/// `tune --report`: the page of one run, with the times of its kernels inside the model. Errors: those of reading
/// records, compiling and running · E702.
Result<> write_tuning_report(const std::shared_ptr<Database>& database, const Graph& graph, const Target& target,
                             uint64_t run_id, const std::string& out);

/// `explain MODEL --why NODE`. Errors: those of explain_node.
Result<Report> explain_why(const ModelFile& model, const std::string& node, const OpenOptions& options);

/// A new subcommand with --json and an example beneath its help.
App* add_subcommand(App& app, const std::string& name, const std::string& what, const std::string& example, bool* json);
/// The model: a file of any kind that a front end reads; with `or_library` also one that `compile` wrote. Also adds
/// --function.
Option* add_model(App* app, ModelFile* model, bool or_library);
/// --function NAME: which of a file's functions is the model.
Option* add_function(App* app, std::string* function);
/// The kinds of files that front ends read, in a clause: "an ONNX model, … or a saved graph".
std::string model_kinds();
/// --shape NAME=D0,D1,… (repeatable). E709 wrong form is a usage error (status 2).
void add_shapes(App* app, InputShapes* shapes);
/// --no-pass NAME: to find the pass after which results differ.
void add_no_pass(App* app, PassNames* without);
/// The line with breaks between words, and in long words behind commas, so that none has more than `columns` where that
/// can be. Lines after the first begin with `indent` blanks.
std::string wrapped(const std::string& line, size_t indent, size_t columns = 80);
/// Each line of the text so.
std::string wrapped_lines(const std::string& text, size_t indent, size_t columns = 80);
/// The line, cut so that it has no more columns; "..." says so.
std::string fitting(const std::string& line, size_t columns = 80);
/// Each line of the text so.
std::string fitting_lines(const std::string& text, size_t columns = 80);
/// Characters of UTF-8.
size_t characters(std::string_view text);

/// Files of inputs' contents, by name.
using InputFiles = std::vector<std::pair<std::string, std::string>>;
/// --input NAME=FILE.npy
void add_inputs(App* app, InputFiles* files);
/// Their contents; `shapes` gets their shapes. Errors: those of read_npy · E704 an input is given twice.
Result<std::vector<NamedTensor>> read_inputs(const InputFiles& files, InputShapes* shapes);
/// --limit NAME=N: of what a model may ask for (graph/limits.h).
void add_limits(App* app, Limits* limits);
/// --range and --tune-at: of the sizes that --shape leaves open.
void add_sizes(App* app, OpenSizes* sizes);
/// --state PAST=PRESENT.
void add_states(App* app, ModelStates* states);
/// --max-error EPSILONS: of what a schedule's algorithm adds (schedule/reformulation.h); no limit unless given.
void add_max_error(App* app, double* max_error);
/// --vendor: whose kernels may be used.
void add_vendor(App* app, KernelSources* sources);
/// --workload-equality NAME, one of the first `modes` of workload_equality_names().
void add_workload_equality(App* app, WorkloadEquality* equality, size_t modes);
/// --threads N, 1 to 1024; 0 stands for as many as this process may use.
void add_threads(App* app, int* threads);
/// --streams N, 1 to 256: calls at once that a model is compiled for.
Option* add_streams(App* app, int* streams);
/// Of a compiled model: which of its targets is taken.
void add_target(App* app, std::string* target);
/// One or several, separated by commas.
void add_targets(App* app, std::string* targets);
/// How a model runs: --pin, --keep-denormals
void add_run_options(App* app, bool* pin, bool* keep_denormals);

/// "90", "60s", "5m", "1h" in seconds.
bool parse_seconds(const std::string& text, double* seconds);
/// "NAME=VALUE"; the name may hold ':' and '/'.
bool parse_assignment(const std::string& text, std::string* name, std::string* value);

/// What `describe` says of each.
template <class Items, class Describe>
nlohmann::json json_list(const Items& items, const Describe& describe) {
  nlohmann::json list = nlohmann::json::array();
  for (const auto& item : items) list.push_back(describe(item));
  return list;
}
/// The model's nodes that a kernel does the work of: [{"op": "Conv", "name": "conv1"}, …].
nlohmann::json origins_json(const std::vector<Origin>& origins);
nlohmann::json provenance_json(const Provenance& provenance);
/// The same of FettleModelInfo::kernel_origins.
nlohmann::json origins_json(std::string_view lines);

/// The function that a graph is, where its file is one of functions: field "function".
void add_function_json(nlohmann::json& json, const GraphFunction& function);

/// A line on standard error, for what is not the result.
void progress(const std::string& line);

/// The database used where --db is not given: $XDG_DATA_HOME/fettle/records.db or ~/.local/share/fettle/records.db;
/// empty if neither is known.
std::string default_database();
/// `given`, or the default one if it exists; else empty.
std::string database_to_read(const std::string& given);

}  // namespace fettle::cli
