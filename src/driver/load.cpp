#include "driver/load.h"

#include <filesystem>

#include "driver/prepare.h"
#include "ir/fields.h"

namespace fettle {

std::string model_name(const ModelSource& source) {
  if (const auto* path = std::get_if<std::string>(&source)) return std::filesystem::path(*path).stem().string();
  if (const auto* model = std::get_if<OnnxModel>(&source)) return model->label;
  return std::get<ImportedModel>(source).label;
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
  InputNames given;
  for (const auto& [name, extents] : shapes) given.insert(name);
  FETTLE_TRY(Graph graph,
             std::visit(Overloaded{
                            [&](const std::string& path) { return import_model(path, given, limits); },
                            [&](const OnnxModel& model) { return import_onnx(model, given, limits); },
                            [&](const ImportedModel& model) -> Result<Graph> { return model.graph->clone(); },
                        },
                        source));
  FETTLE_TRY_VOID(prepare_graph(graph, shapes, sizes, states, after, without, limits));
  return graph;
}

}  // namespace fettle
