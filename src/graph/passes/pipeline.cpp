#include "graph/passes/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "graph/passes/passes.h"

namespace fettle {

std::span<const GraphPass> graph_passes() {
  using namespace passes;
  static constexpr GraphPass list[] = {
      {"infer_shapes", infer_shapes},
      {"drop_dead", drop_dead},
      {"fold_constants", fold_constants},
      {"simplify", simplify},
      {"lower_batch_norm", lower_batch_norm},
      {"recognize_patterns", recognize_patterns},
      {"sink_views", sink_views},
      {"fold_gathers", fold_gathers},
      {"sink_scales", sink_scales},
      {"fold_affine", fold_affine},
      {"lower_conv_transpose", lower_conv_transpose},
      {"fold_constants", fold_constants},
      {"simplify", simplify},
      {"merge_common", merge_common},
      {"combine_siblings", combine_siblings},
      {"drop_dead", drop_dead},
  };
  return list;
}

Result<> optimize(Graph& graph, const PassContext& context) {
  graph.sort();
  for (const GraphPass& pass : graph_passes()) {
    FETTLE_TRY_VOID(pass.run(graph, context));
    graph.sort();
    if (auto valid = validate(graph, /*typed=*/true); !valid) {
      valid.error().message += fmt::format(" (after {})", pass.name);
      return valid;
    }
    if (context.after) context.after(pass.name, graph);
  }
  return {};
}

Result<> bind_shapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::map<std::string, int64_t> symbols;
  for (const auto& [name, extents] : shapes) {
    const Value* input = graph.find_input(name);
    if (!input) {
      std::string known;
      for (const Value* value : graph.inputs()) known += (known.empty() ? "" : ", ") + value->name;
      return fail(ErrorCode::E704, fmt::format("there is no input \"{}\"; the inputs are: {}", name, known));
    }
    const Shape& shape = input->shape();
    bool fits = shape.size() == extents.size();
    for (size_t d = 0; fits && d < shape.size(); ++d)
      fits = extents[d] >= 0 && extents[d] <= kMaxDim && (!shape[d].is_number() || shape[d].value() == extents[d]);
    if (!fits)
      return fail(
          ErrorCode::E705,
          fmt::format("it cannot have the shape [{}]: it is {}", fmt::join(extents, ", "), input->type->to_string()),
          name);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d].is_number()) continue;
      const auto [it, is_new] = symbols.emplace(shape[d].name(), extents[d]);
      if (!is_new && it->second != extents[d])
        return fail(ErrorCode::E705,
                    fmt::format("\"{}\" is given as {} and as {}", shape[d].name(), it->second, extents[d]), name);
    }
  }
  for (Value* input : graph.inputs())
    for (Dim& d : input->type->shape)
      if (const auto it = symbols.find(d.name()); !d.is_number() && it != symbols.end()) d = it->second;
  return {};
}

Result<> require_static(const Graph& graph) {
  std::string unknown;
  for (const Value* input : graph.inputs())
    if (!input->is_static())
      unknown += fmt::format("{}{} is {}", unknown.empty() ? "" : "; ", input->name, input->type->to_string());
  if (!unknown.empty()) return fail(ErrorCode::E604, unknown);
  for (const Node* node : graph.nodes())
    for (const Value* output : node->outputs)
      if (!output->is_static())
        return fail(ErrorCode::E604,
                    fmt::format("\"{}\" is {}", output->name, output->type ? output->type->to_string() : "not typed"),
                    node->name);
  return {};
}

}  // namespace fettle
