#include "driver/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <filesystem>

#include "driver/prepare.h"
#include "ir/fields.h"

namespace fettle {

std::string model_name(const ModelSource& source) {
  if (const auto* file = std::get_if<ModelFile>(&source)) {
    const std::string stem = std::filesystem::path(file->path).stem().string();
    return file->function.empty() ? stem : stem + "." + file->function;
  }
  if (const auto* model = std::get_if<OnnxModel>(&source)) return model->label;
  return std::get<ImportedModel>(source).label;
}

InputNames names_of(const InputShapes& shapes) {
  InputNames names;
  for (const auto& [name, extents] : shapes) names.insert(name);
  return names;
}

void note_function(const ModelSource& source, const Graph& graph, const std::function<void(const std::string&)>& say) {
  const auto* file = std::get_if<ModelFile>(&source);
  const GraphFunction& function = graph.function();
  if (!say || !file || !file->function.empty() || function.all.size() < 2 || function.name == "main") return;
  say(fmt::format("{} has the functions {}: {} is taken, as none is named", file->path, fmt::join(function.all, ", "),
                  function.name));
}

InputShapes typical_shapes(const Graph& graph) {
  InputShapes shapes;
  for (const Value* input : graph.inputs())
    for (const Dim& dim : input->shape()) shapes[input->name].push_back(dim.typical());
  return shapes;
}

Result<> prepare_graph(Graph& graph, const InputShapes& shapes, const OpenSizes& sizes, const ModelStates& states,
                       const GraphObserver& after, const PassNames& without, const Limits& limits) {
  FETTLE_TRY_VOID(bind_shapes(graph, shapes));
  FETTLE_TRY_VOID(refine_sizes(graph, sizes));
  FETTLE_TRY_VOID(optimize(
      graph, {.limits = limits, .run = interpreter_executor(limits.folded_steps), .after = after, .without = without}));
  FETTLE_TRY_VOID(require_sizes(graph));
  return declare_states(graph, states);
}

Result<Graph> load_model(const ModelSource& source, const InputShapes& shapes, const OpenSizes& sizes,
                         const ModelStates& states, const GraphObserver& after, const PassNames& without,
                         const Limits& limits) {
  const InputNames given = names_of(shapes);
  FETTLE_TRY(
      Graph graph,
      std::visit(Overloaded{
                     [&](const ModelFile& file) { return import_model(file.path, {given, limits, file.function}); },
                     [&](const OnnxModel& model) { return import_onnx(model, given, limits); },
                     [&](const ImportedModel& model) -> Result<Graph> { return model.graph->clone(); },
                 },
                 source));
  FETTLE_TRY_VOID(prepare_graph(graph, shapes, sizes, states, after, without, limits));
  return graph;
}

}  // namespace fettle
