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
  return code == ErrorCode::E602 || code == ErrorCode::E605 || code == ErrorCode::E606 || code == ErrorCode::E607;
}

Result<PlannedModel> plan(const SurveyedModel& model, const OpenOptions& options) {
  InputNames given;
  for (const auto& [name, extents] : options.shapes) given.insert(name);
  FETTLE_TRY(Graph graph, model.import(given, options.limits));
  FETTLE_TRY_VOID(
      prepare_graph(graph, options.shapes, options.sizes, options.states, {}, options.without, options.limits));
  Plans plans(std::make_shared<const Graph>(std::move(graph)));
  CompileOptions compile;
  compile.target = detect_host(options.threads);
  compile.threads = compile.target.threads;
  return plan_model(plans, compile);
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

Result<ModelCheck> check_model(const std::string& path, const OpenOptions& given) {
  FETTLE_TRY(SurveyedModel model, SurveyedModel::read(path));
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
