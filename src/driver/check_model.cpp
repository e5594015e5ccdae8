#include "driver/check_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "driver/prepare.h"

namespace fettle {
namespace {

constexpr size_t kMostReasons = 64;

bool is_of_options(ErrorCode code) {
  return code == ErrorCode::E704 || code == ErrorCode::E705 || code == ErrorCode::E709;
}

bool is_of_the_file(ErrorCode code) {
  using enum ErrorCode;
  constexpr ErrorCode kOfTheFile[] = {E602, E605, E606, E607, E611, E612, E613};
  return std::ranges::find(kOfTheFile, code) != std::end(kOfTheFile);
}

Result<PlannedModel> plan(Graph graph, const OpenOptions& options) {
  FETTLE_TRY_VOID(prepare_graph(graph, options.shapes, options.sizes, options.states, {}, passes_left_out(options),
                                options.limits));
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  CompileOptions compile;
  compile.target = detect_host(options.threads);
  compile.threads = compile.target.threads;
  return plan_model(plans, compile);
}

Result<PlannedModel> plan(const SurveyedModel& model, const OpenOptions& options) {
  FETTLE_TRY(Graph graph, model.import(names_of(options.shapes), options.limits));
  return plan(std::move(graph), options);
}

// Of a file that is not ONNX's: there are no parts of it that could be judged without the others.
Result<ModelCheck> check_other(const FrontendDef& frontend, const ModelFile& file, const OpenOptions& options) {
  const std::string& path = file.path;
  const ImportOptions asked{names_of(options.shapes), options.limits, file.function};
  ModelCheck check;
  if (frontend.survey)
    if (auto survey = frontend.survey(path, asked)) check.survey = std::move(*survey);
  if (frontend.problems) check.reasons = frontend.problems(path, asked);
  for (Diagnostic& reason : check.reasons) {
    if (is_of_options(reason.code)) return fail(std::move(reason));
    reason = with_kind(frontend, std::move(reason), path);
  }
  if (!check.reasons.empty()) return check;
  Result<Graph> graph = frontend.import(path, asked);
  if (graph && !frontend.survey) check.survey = survey_of(*graph);
  if (check.survey.format.empty()) check.survey.format = frontend.name;
  Result<PlannedModel> planned =
      graph ? plan(std::move(*graph), options) : fail(with_kind(frontend, std::move(graph).error(), path));
  if (planned) {
    FETTLE_TRY(check.work, work_of(*planned->graph));
    check.planned = std::move(*planned);
    return check;
  }
  if (is_of_options(planned.error().code)) return fail(std::move(planned).error());
  check.reasons.push_back(std::move(planned).error());
  return check;
}

// What nodes are made of has their names, and something behind it.
bool cut_around(SurveyedModel& model, std::string name) {
  while (!name.empty()) {
    if (!model.cut(name).empty()) return true;
    const size_t end = name.find_last_of("./:");
    name.resize(end == std::string::npos ? 0 : end);
  }
  return false;
}

// Options speak of inputs; those of inputs that were taken out go, too.
OpenOptions without_missing(OpenOptions options, const ModelSurvey& before, const ModelSurvey& now) {
  for (const auto& [name, type] : before.inputs)
    if (std::ranges::none_of(now.inputs, [&](const auto& input) { return input.first == name; }))
      options.shapes.erase(name);
  return options;
}

}  // namespace

bool ModelCheck::is_valid() const {
  return std::ranges::none_of(reasons, [](const Diagnostic& reason) { return is_of_the_file(reason.code); });
}

Result<ModelCheck> check_model(const ModelFile& file, const OpenOptions& given) {
  const std::string& path = file.path;
  FETTLE_TRY(const FrontendDef* frontend, frontend_of(path));
  FETTLE_TRY_VOID(check_function(*frontend, {.function = file.function}));
  if (frontend->name != "onnx") return check_other(*frontend, file, given);
  auto read = SurveyedModel::read(path);
  if (!read) return fail(with_kind(*frontend, std::move(read).error(), path));
  SurveyedModel model = *std::move(read);
  OpenOptions options = given;
  ModelCheck check{.survey = model.survey()};
  std::vector<std::string> missing;
  for (const auto& [op, nodes] : check.survey.missing) {
    missing.push_back(op);
    check.reasons.emplace_back(ErrorCode::E603, fmt::format("{} ({})", op, fmt::join(nodes, ", ")));
  }
  if (!missing.empty()) model.cut_operators(missing);
  while (missing.empty() || model.has_nodes()) {
    auto planned = plan(model, options);
    if (planned) {
      if (!check.reasons.empty()) break;
      FETTLE_TRY(check.work, work_of(*planned->graph));
      check.planned = std::move(*planned);
      break;
    }
    const Diagnostic error = std::move(planned.error());
    planned = PlannedModel{};  // it shares constants with the model
    if (is_of_options(error.code)) {
      if (check.reasons.empty()) return fail(error);
      break;  // an option of what is gone
    }
    const std::string where = error.where;
    check.reasons.push_back(error);
    check.is_cut_short = check.reasons.size() >= kMostReasons;
    if (check.is_cut_short || !cut_around(model, where) || !model.has_nodes()) break;
    options = without_missing(given, check.survey, model.survey());
    options.sizes.clear();
    options.states.clear();
  }
  return check;
}

}  // namespace fettle
