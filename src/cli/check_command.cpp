#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <set>

#include "cli/command.h"
#include "driver/check_model.h"

namespace fettle::cli {
namespace {

struct Options {
  ModelFile model;
  int threads = 0;
  InputShapes shapes;
  OpenSizes sizes;
  ModelStates states;
  Limits limits;
  bool json = false;
};

nlohmann::json named_types(const std::vector<std::pair<std::string, std::string>>& tensors) {
  return json_list(
      tensors, [](const auto& tensor) -> nlohmann::json { return {{"name", tensor.first}, {"type", tensor.second}}; });
}

// Sizes that the inputs leave open, each once.
std::vector<Dim> open_sizes(const Graph& graph) {
  std::vector<Dim> sizes;
  std::set<std::string> seen;
  for (const Value* input : graph.inputs())
    for (const Dim& dim : input->shape())
      dim.for_each_symbol([&](const Dim& size) {
        if (seen.emplace(size.symbol_name()).second) sizes.push_back(size);
      });
  return sizes;
}

// The number behind the last colon, which goes with it.
std::optional<int> take_number(std::string& where) {
  const size_t colon = where.rfind(':');
  int number = 0;
  if (colon == std::string::npos) return std::nullopt;
  const char *begin = where.data() + colon + 1, *end = where.data() + where.size();
  if (begin == end || std::from_chars(begin, end, number).ptr != end) return std::nullopt;
  where.resize(colon);
  return number;
}

nlohmann::json reason_json(const Diagnostic& reason) {
  const ErrorInfo& info = error_info(reason.code);
  nlohmann::json made = {{"code", info.name},
                         {"meaning", info.meaning},
                         {"message", reason.message},
                         {"where", reason.where},
                         {"remedy", info.remedy}};
  // "f.tc:3:12", of files that people write.
  std::string file = reason.where;
  if (const auto column = take_number(file))
    if (const auto line = take_number(file)) {
      made["file"] = file;
      made["line"] = *line;
      made["column"] = *column;
    }
  return made;
}

nlohmann::json counts_json(const std::map<std::string, int64_t>& counts) {
  return json_list(
      counts, [](const auto& entry) -> nlohmann::json { return {{"name", entry.first}, {"count", entry.second}}; });
}

std::string counts_text(const std::map<std::string, int64_t>& counts) {
  std::vector<std::pair<int64_t, std::string>> sorted;
  for (const auto& [name, count] : counts) sorted.emplace_back(-count, name);
  std::ranges::sort(sorted);
  std::string text;
  for (const auto& [count, name] : sorted) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, -count);
  return text;
}

std::string count_text(const SizedCount& count) {
  return count.is_number() ? count.to_string()
                           : fmt::format("{}; {:.0f} at usual sizes", count.summary(), count.typical());
}

std::string opsets_text(const ModelSurvey& survey) {
  std::string text;
  for (const auto& [domain, version] : survey.opsets)
    text += fmt::format(", opset {}{}", version, domain.empty() ? "" : " of " + domain);
  return text;
}

std::string format_text(const ModelSurvey& survey) {
  if (!survey.format.empty() || survey.ir_version == 0) return survey.format;
  return fmt::format("IR {}{}{}", survey.ir_version, opsets_text(survey),
                     survey.producer.empty() ? "" : ", by " + survey.producer);
}

void add_plan(Report& report, const ModelCheck& check) {
  const PlannedModel& planned = *check.planned;
  const Graph& graph = *planned.graph;
  nlohmann::json &inputs = report.json["inputs"] = nlohmann::json::array(),
                 &outputs = report.json["outputs"] = nlohmann::json::array();
  add_function_json(report.json, graph.function());
  if (const GraphFunction& function = graph.function(); function.all.size() > 1)
    report.text += fmt::format("function   {}, of {}\n", function.name, fmt::join(function.all, ", "));
  for (const Value* input : graph.inputs()) {
    inputs.push_back({{"name", input->name}, {"type", input->type->to_string()}});
    report.text += fmt::format("input      {} {}\n", input->name, input->type->to_string());
  }
  for (const GraphOutput& output : graph.outputs()) {
    outputs.push_back({{"name", output.name}, {"type", output.value->type->to_string()}});
    report.text += fmt::format("output     {} {}\n", output.name, output.value->type->to_string());
  }
  for (const GraphState& state : graph.states()) {
    const std::string& present = graph.outputs()[static_cast<size_t>(state.output)].name;
    report.json["states"].push_back({{"input", state.input->name}, {"output", present}});
    report.text += fmt::format("state      {} is what the call before left in {}\n", state.input->name, present);
  }
  for (const Dim& size : open_sizes(graph)) {
    const std::string most = size.max() >= kMaxDim ? "" : std::to_string(size.max());
    report.json["sizes"].push_back({{"name", size.symbol_name()},
                                    {"min", size.min()},
                                    {"max", most.empty() ? nlohmann::json() : nlohmann::json(size.max())},
                                    {"multiple", size.divisor()},
                                    {"usual", size.typical()}});
    report.text += fmt::format("size       {}: {}..{}{}, usually {}\n", size.symbol_name(), size.min(), most,
                               size.divisor() > 1 ? fmt::format(":{}", size.divisor()) : "", size.typical());
  }
  report.json["operations"] = {{"count", check.work.operations.to_string()},
                               {"usual", check.work.operations.typical()}};
  report.json["moved_bytes"] = {{"count", check.work.bytes.to_string()}, {"usual", check.work.bytes.typical()}};
  report.json["kernels"] = planned.plan.calls.size();
  report.json["arena_bytes"] = planned.arena_bytes();
  report.json["constant_bytes"] = planned.constants.stored_bytes();
  report.text +=
      fmt::format("operations {}\nbytes      {}\n", count_text(check.work.operations), count_text(check.work.bytes));
  report.text += fmt::format("memory     {} bytes of constants, {} bytes to work with; {} kernels\n",
                             planned.constants.stored_bytes(), planned.arena_bytes(), planned.plan.calls.size());
}

Result<Report> check(const Options& options) {
  FETTLE_TRY(const ModelCheck check, check_model(options.model, {.threads = options.threads,
                                                                 .shapes = options.shapes,
                                                                 .database = {},
                                                                 .warn = {},
                                                                 .sizes = options.sizes,
                                                                 .states = options.states,
                                                                 .limits = options.limits}));
  const ModelSurvey& survey = check.survey;
  const bool compiles = check.planned.has_value();
  Report report;
  report.status = compiles ? kDone : kCouldNot;
  report.json = {{"file", options.model.path},
                 {"valid", check.is_valid()},
                 {"compiles", compiles},
                 {"format", format_text(survey)},
                 {"ir_version", survey.ir_version},
                 {"producer", survey.producer},
                 {"opsets", json_list(survey.opsets,
                                      [](const auto& opset) -> nlohmann::json {
                                        return {{"domain", opset.first}, {"version", opset.second}};
                                      })},
                 {"operators", counts_json(survey.operators)},
                 {"parameters", survey.parameters},
                 {"parameter_bytes", survey.parameter_bytes},
                 {"parameter_types", counts_json(survey.parameter_types)},
                 {"inputs", named_types(survey.inputs)},
                 {"outputs", named_types(survey.outputs)},
                 {"states", nlohmann::json::array()},
                 {"sizes", nlohmann::json::array()},
                 {"reasons", json_list(check.reasons, reason_json)},
                 {"more_reasons", check.is_cut_short}};
  report.text = fmt::format("{}: {}, {}\n", options.model.path, check.is_valid() ? "valid" : "not valid",
                            compiles ? "compiles" : "does not compile");
  // A file that cannot be read says nothing.
  if (const std::string format = format_text(survey); !format.empty())
    report.text += fmt::format("format     {}\n", format);
  if (!survey.operators.empty()) report.text += fmt::format("operators  {}\n", counts_text(survey.operators));
  if (!survey.operators.empty())
    report.text += fmt::format("parameters {}, {} bytes{}\n", survey.parameters, survey.parameter_bytes,
                               survey.parameters == 0 ? "" : ": " + counts_text(survey.parameter_types));
  if (compiles) {
    add_plan(report, check);
  } else {
    for (const auto& [name, type] : survey.inputs) report.text += fmt::format("input      {} {}\n", name, type);
    for (const auto& [name, type] : survey.outputs) report.text += fmt::format("output     {} {}\n", name, type);
    for (const Diagnostic& reason : check.reasons) report.text += fmt::format("reason     {}\n", reason.to_string());
    if (check.is_cut_short) report.text += "reason     … and there may be more\n";
  }
  return report;
}

}  // namespace

Command add_check_command(App& app) {
  auto options = std::make_shared<Options>();
  App* made = add_subcommand(app, "check", "Say whether a model compiles, every reason if not, and what there is in it",
                             "fettle check model.onnx --shape x=1,3,224,224", &options->json);
  add_model(made, &options->model, false);
  add_threads(made, &options->threads);
  add_shapes(made, &options->shapes);
  add_sizes(made, &options->sizes);
  add_states(made, &options->states);
  add_limits(made, &options->limits);
  return {made, [options] { return check(*options); }, &options->json};
}

}  // namespace fettle::cli
