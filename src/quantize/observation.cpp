#include "quantize/observation.h"

#include <algorithm>
#include <memory>
#include <set>

#include "graph/dim.h"

namespace fettle::quantize {
namespace {

Result<ImportedModel> with_outputs(const OnnxModel& model, std::span<const std::string> names,
                                   const OpenOptions& options) {
  FETTLE_TRY(Graph graph, import_onnx(model, names_of(options.shapes), options.limits));
  std::set<std::string, std::less<>> outputs;
  for (const GraphOutput& output : graph.outputs()) outputs.insert(output.name);
  for (const std::string& name : names)
    if (Value* value = graph.find_value(name); value && outputs.insert(name).second) graph.add_output(name, value);
  return ImportedModel{std::make_shared<const Graph>(std::move(graph)), model.label, {}};
}

int64_t typical_bytes(const Value& value) {
  int64_t bytes = value.dtype().element_bytes();
  for (const Dim& dim : value.shape()) bytes *= std::max<int64_t>(1, dim.typical());
  return bytes;
}

}  // namespace

Result<InputShapes> common_shapes(const Samples& samples) {
  InputShapes shapes;
  std::set<std::string> differ;
  for (size_t i = 0; i < samples.count; ++i) {
    FETTLE_TRY(const std::vector<NamedTensor> inputs, samples.read(i));
    for (const NamedTensor& input : inputs) {
      const auto [place, is_new] = shapes.emplace(input.name, input.tensor.shape());
      if (place->second != input.tensor.shape()) differ.insert(input.name);
    }
  }
  for (const std::string& name : differ) shapes.erase(name);
  return shapes;
}

Result<ObservedGroups> group_observed(const OnnxModel& model, const std::vector<std::string>& names,
                                      const OpenOptions& options, int64_t limit_bytes) {
  FETTLE_TRY(const ImportedModel imported, with_outputs(model, names, options));
  FETTLE_TRY(const Graph graph,
             load_model(imported, options.shapes, options.sizes, options.states, {}, options.without, options.limits));
  std::map<std::string_view, const Value*> values;
  for (const GraphOutput& output : graph.outputs()) values.emplace(output.name, output.value);
  ObservedGroups made;
  int64_t bytes = limit_bytes;
  for (const std::string& name : names) {
    const auto found = values.find(name);
    if (found == values.end() || !found->second->type) {
      made.lost.push_back(name);
      continue;
    }
    const int64_t more = typical_bytes(*found->second);
    if (made.groups.empty() || bytes + more > limit_bytes) {
      made.groups.emplace_back();
      bytes = 0;
    }
    made.groups.back().push_back(name);
    bytes += more;
  }
  return made;
}

Result<Model> open_observed(const OnnxModel& model, std::span<const std::string> names, const OpenOptions& options) {
  FETTLE_TRY(const ImportedModel imported, with_outputs(model, names, options));
  return open_model(imported, options);
}

}  // namespace fettle::quantize
