#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <span>
#include <sstream>

#include "cli/command.h"
#include "cli/explanations.h"
#include "cli/steps_file.h"
#include "driver/open.h"
#include "ir/text.h"
#include "schedule/trace/explain.h"

namespace fettle::cli {
namespace {

struct Options {
  std::string code;            // or a model
  std::string node, function;  // of the model
  InputShapes shapes;
  PassNames without;
  int threads = 0, streams = 0;
  std::string program, trace;  // files
  std::string database, task;  // or the best record of a task
  uint64_t seed = 0;
  bool simplify = false;
  bool json = false;
};

std::string upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

nlohmann::json to_json(const ErrorInfo& info) {
  const Explanation& more = explanation_of(info.code);
  return {{"code", info.name},
          {"meaning", info.meaning},
          {"cause", more.cause},
          {"example", more.example},
          {"remedy", info.remedy}};
}

/// The number in "E201", or -1.
int number_of(std::string_view name) {
  if (name.starts_with('E')) name.remove_prefix(1);
  int number = 0;
  const auto [next, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && next == name.data() + name.size() ? number : -1;
}

Diagnostic unknown_code(const std::string& given, std::span<const ErrorInfo> table) {
  const int number = number_of(upper(given));
  if (number < 0)
    return {ErrorCode::E709, "'" + given + "' is no code such as E201; `fettle explain` lists them all", "CODE"};
  const auto distance = [&](const ErrorInfo& info) { return std::abs(number_of(info.name) - number); };
  const ErrorInfo& nearest = *std::min_element(
      table.begin(), table.end(), [&](const ErrorInfo& a, const ErrorInfo& b) { return distance(a) < distance(b); });
  return {ErrorCode::E709,
          fmt::format("no error has the code '{}'; the nearest is {}: {}", given, nearest.name, nearest.meaning),
          "CODE"};
}

struct Steps {
  Func program;
  ParsedTrace trace;
};

Result<Steps> parse(const std::string& program, const std::string& program_file, const std::string& trace,
                    const std::string& trace_file) {
  auto func = parse_func(program);
  if (!func) return fail(in_file(std::move(func).error(), program_file));
  FETTLE_TRY(ParsedTrace steps, parse_steps(trace, trace_file));
  return Steps{std::move(*func), std::move(steps)};
}

Result<Steps> read_steps(const Options& options) {
  if (!options.program.empty()) {
    FETTLE_TRY(const std::string program, read_text(options.program));
    FETTLE_TRY(const std::string trace, read_text(options.trace));
    return parse(program, options.program, trace, options.trace);
  }
  FETTLE_TRY(const std::shared_ptr<Database> database, open_records(options.database));
  FETTLE_TRY(const std::vector<TaskSummary> summaries, summarize(*database));
  for (const TaskSummary& summary : summaries)
    if (summary.best && summary.task.workload.hash.hex().starts_with(options.task))
      return parse(summary.task.workload.text, options.database, summary.best->trace, options.database);
  return fail(ErrorCode::E709, fmt::format("no task with a record begins with '{}'; see db ls", options.task),
              "--task");
}

/// The program after each step of a trace; status 1 where a step is refused.
Result<Report> explain_steps(const Options& options) {
  FETTLE_TRY(Steps steps, read_steps(options));
  if (options.simplify) steps.trace = simplify(steps.trace);
  const TraceExplanation explained = explain_trace(Schedule(steps.program, options.seed), steps.trace);
  Report report;
  report.text = to_text(explained);
  const auto describe = [](const ExplainedStep& step) -> nlohmann::json {
    return {{"step", step.step}, {"program", step.program}};
  };
  report.json = {{"program", explained.start}, {"steps", json_list(explained.steps, describe)}};
  if (explained.refused) {
    report.json["refused"] = {{"code", error_info(explained.refused->code).name},
                              {"message", fettle::explain(*explained.refused)},
                              {"smallest", explained.smallest}};
    report.status = kCouldNot;
  }
  return report;
}

Result<Report> explain(const Options& options) {
  if (!options.node.empty()) {
    if (options.code.empty()) return fail(ErrorCode::E709, "give the model's file, too", "--why");
    return explain_why({options.code, options.function}, options.node,
                       {.threads = options.threads,
                        .streams = options.streams,
                        .shapes = options.shapes,
                        .database = database_to_read(options.database),
                        .warn = progress,
                        .without = options.without});
  }
  const bool files = !options.program.empty(), records = !options.database.empty();
  if (records != !options.task.empty()) return fail(ErrorCode::E709, "--db and --task go together", "--task");
  if (files || records) {
    if (!options.code.empty() || (files && records))
      return fail(ErrorCode::E709, "give a CODE, --program and --trace, or --db and --task");
    return explain_steps(options);
  }
  size_t count = 0;
  const ErrorInfo* first = error_table(&count);
  const std::span<const ErrorInfo> table(first, count);
  Report report;
  if (options.code.empty()) {
    report.json["errors"] = json_list(table, to_json);
    for (const ErrorInfo& info : table)
      report.text += wrapped(fmt::format("{}  {}", info.name, info.meaning), 6) + "\n";
    return report;
  }
  const ErrorInfo* info = find_error(upper(options.code));
  if (!info || info->code == ErrorCode::kNone) return fail(unknown_code(options.code, table));
  report.json = to_json(*info);
  const Explanation& more = explanation_of(info->code);
  report.text = wrapped_lines(fmt::format("{}: {}\n\n{}\n\nExample: {}\n\nWhat to do: {}.\n", info->name, info->meaning,
                                          more.cause, more.example, info->remedy),
                              0);
  return report;
}

}  // namespace

Command add_explain_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(
      app, "explain", "Say what an error code means, why a node is in its kernel, or what each step of a schedule does",
      "fettle explain E201\n  fettle explain model.onnx --why conv1\n"
      "  fettle explain --program matmul.txt --trace tiled.txt",
      &options->json);
  std::vector<std::string> codes;
  size_t n_codes = 0;
  const ErrorInfo* table = error_table(&n_codes);
  for (const ErrorInfo& info : std::span(table, n_codes)) codes.emplace_back(info.name);
  made->add_option("code", options->code, "as an error begins; without one, all are listed. With --why: a model")
      ->type_name("CODE|MODEL")
      ->such_as(std::move(codes));
  auto* why = made->add_option("--why", options->node, "a node of the model: which kernel it is part of, and why")
                  ->type_name("NODE");
  add_function(made, &options->function)->needs(why);
  auto* program = made->add_option("--program", options->program, "a program in the loop language, to be scheduled")
                      ->type_name("FILE");
  auto* trace =
      made->add_option("--trace", options->trace, "the steps, as text or JSON; the program is shown after each")
          ->type_name("FILE");
  made->add_option("--db", options->database, "records of tuning: the best of a task is shown; those that --why uses")
      ->type_name("FILE");
  made->add_option("--task", options->task, "the beginning of the task's hash")->type_name("HASH");
  made->add_option("--seed", options->seed, "for decisions that the trace leaves open")->type_name("N");
  made->add_flag("--simplify", options->simplify, "leave out queries and decisions that nothing uses");
  program->needs(trace);
  trace->needs(program);
  program->excludes(why);
  add_shapes(made, &options->shapes);
  add_no_pass(made, &options->without);
  add_threads(made, &options->threads);
  add_streams(made, &options->streams);
  return {made, [options] { return explain(*options); }, &options->json};
}

}  // namespace fettle::cli
