#include "frontend/frontend.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

#include "frontend/onnx/model_file.h"
#include "graph/op.h"

namespace fettle {

extern const FrontendDef onnx_frontend;

Result<const FrontendDef*> frontend_of(const std::string& path) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  const std::span head(file.bytes.get(), static_cast<size_t>(std::min<int64_t>(file.size_bytes, 64)));
  const auto reads = [&](const FrontendDef* frontend) { return frontend->recognizes(path, head); };
  const auto found = std::ranges::find_if(frontends(), reads);
  return found == frontends().end() ? &onnx_frontend : *found;
}

Result<> check_function(const FrontendDef& frontend, const ImportOptions& options) {
  if (options.function.empty() || frontend.has_functions) return {};
  return fail(ErrorCode::E709,
              fmt::format("there is no function \"{}\": {} has none to choose from", options.function, frontend.kind));
}

Result<Graph> import_model(const std::string& path, const ImportOptions& options) {
  FETTLE_TRY(const FrontendDef* frontend, frontend_of(path));
  FETTLE_TRY_VOID(check_function(*frontend, options));
  Result<Graph> graph = frontend->import(path, options);
  if (!graph) return fail(with_kind(*frontend, std::move(graph).error(), path));
  return graph;
}

namespace {

// Of a file that no front end knew: by its ending it is no model's.
std::string unknown_ending(const std::string& path) {
  const std::string ending = std::filesystem::path(path).extension().string();
  std::vector<std::string_view> known;
  for (const FrontendDef* frontend : frontends()) known.push_back(frontend->endings);
  const std::string list = fmt::format("{}", fmt::join(known, ", "));
  if (ending.empty() || list.find(ending) != std::string::npos) return {};
  return fmt::format(". \"{}\" is no ending of a model; these are: {}", ending, list);
}

}  // namespace

Diagnostic with_kind(const FrontendDef& frontend, Diagnostic problem, const std::string& path) {
  if (problem.code != ErrorCode::E602) return problem;
  problem.message = fmt::format("read as {}{}{}{}", frontend.kind, problem.message.empty() ? "" : ": ", problem.message,
                                &frontend == &onnx_frontend ? unknown_ending(path) : "");
  return problem;
}

ModelSurvey survey_of(const Graph& graph) {
  ModelSurvey survey;
  std::set<std::pair<std::string, std::string>> seen;
  std::set<const std::byte*> counted;
  const auto type_of = [](const Value& value) { return value.type ? value.type->to_string() : std::string("?"); };
  for_each_graph(graph, [&](const Graph& part) {
    const auto visit = [&](const Value* value) {
      if (!value || !value->is_constant() || !counted.insert(value->constant->bytes.get()).second) return;
      survey.parameters += value->constant->n_elems();
      survey.parameter_bytes += value->constant->size_bytes;
      survey.parameter_types[value->constant->dtype.to_string()] += value->constant->n_elems();
    };
    for (const Node* node : part.nodes()) {
      if (node->erased) continue;
      for (const Value* input : node->inputs) visit(input);
      for (const Origin& origin : node->provenance)
        if (seen.emplace(origin.op, origin.name).second) ++survey.operators[origin.op];
      if (node->provenance.empty()) ++survey.operators[std::string(node->op->name)];
    }
  });
  for (const Value* input : graph.inputs()) survey.inputs.emplace_back(input->name, type_of(*input));
  for (const GraphOutput& output : graph.outputs()) survey.outputs.emplace_back(output.name, type_of(*output.value));
  return survey;
}

}  // namespace fettle
