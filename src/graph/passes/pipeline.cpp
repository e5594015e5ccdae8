#include "graph/passes/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "graph/late_sizes.h"
#include "graph/passes/optional_passes.h"
#include "graph/passes/passes.h"

namespace fettle {

std::span<const GraphPass> graph_passes() {
  using namespace passes;
  static constexpr GraphPass list[] = {
      {"infer_shapes", "types become known, and what follows from shapes alone is computed", infer_shapes,
       /*runs_on_bodies=*/true, /*is_needed=*/true},
      {"unify_sizes", "sizes that must be equal become one", unify_sizes, /*runs_on_bodies=*/true},
      {"drop_dead", "what nothing needs is dropped", drop_dead},
      {"lower_quantized", "products of what was dequantised become products of bytes", lower_quantized},
      {"pack_weights", "products keep weights of few bits packed", pack_weights},
      {"fold_constants", "what depends on constants alone is computed", fold_constants},
      {"tabulate_bytes", "functions of one byte become look-ups", tabulate_bytes},
      {"settle_bodies", "what does not depend on iterations leaves its loop", settle_bodies, /*runs_on_bodies=*/true,
       /*is_needed=*/true},
      {"simplify", "what does nothing goes, and identities are applied", simplify},
      {"lower_batch_norm", "a normalization by constants becomes a factor and an offset", lower_batch_norm},
      {"recognize_patterns", "what exporters spell out becomes one operator", recognize_patterns},
      {"recognize_masks", "computed masks become one operator", recognize_masks},
      {"group_heads", "products read what was repeated for them as it was", group_heads},
      {"sink_views", "reshapes and transposes move behind elementwise work", sink_views},
      {"fold_gathers", "look-ups in constants are folded", fold_gathers},
      {"sink_scales", "factors become one of the product", sink_scales},
      {"fold_affine", "constant factors and offsets move into weights and bias", fold_affine},
      {"lower_conv_transpose", "a transposed convolution becomes a product, spread out", lower_conv_transpose},
      {"fold_constants", "what depends on constants alone is computed", fold_constants},
      {"simplify", "what does nothing goes, and identities are applied", simplify},
      {"merge_common", "equal nodes become one", merge_common},
      {"combine_siblings", "products of one input become one", combine_siblings},
      {"join_sums", "sums over one matrix go through it once", join_sums},
      {"distribute_loops", "rows that no iteration reads are computed for all at once", distribute_loops,
       /*runs_on_bodies=*/true},
      {"settle_bodies", "what does not depend on iterations leaves its loop", settle_bodies, /*runs_on_bodies=*/true,
       /*is_needed=*/true},
      {"drop_dead", "what nothing needs is dropped", drop_dead},
      {"fuse_loops", "a counted loop of small work becomes one kernel", fuse_loops, /*runs_on_bodies=*/true},
  };
  return list;
}

PassNames optional_passes() {
  PassNames names;
  for (const GraphPass& pass : graph_passes())
    if (!pass.is_needed) names.emplace(pass.name);
  return names;
}

namespace {

Result<> check_left_out(const PassNames& without) {
  const PassNames optional = optional_passes();
  for (const std::string& name : without)
    if (!optional.contains(name))
      return fail(ErrorCode::E709,
                  fmt::format("no pass \"{}\" can be left out; these can: {}", name, fmt::join(optional, ", ")));
  return {};
}

}  // namespace

Result<> optimize(Graph& graph, const PassContext& context) {
  FETTLE_TRY_VOID(check_left_out(context.without));
  graph.sort();
  for (const GraphPass& pass : graph_passes()) {
    if (context.without.contains(pass.name)) continue;
    Result<> ran;
    const auto run_on = [&](Graph& g) {
      if (ran) ran = pass.run(g, context);
      if (ran) g.sort();
    };
    if (pass.runs_on_bodies)
      run_on(graph);
    else
      for_each_graph(graph, run_on);
    FETTLE_TRY_VOID(std::move(ran));
    if (auto valid = validate(graph, /*typed=*/true); !valid) {
      valid.error().message += fmt::format(" (after {})", pass.name);
      return valid;
    }
    if (context.after) context.after(pass.name, graph);
  }
  return {};
}

namespace {

// Other dims for sizes of the inputs, wherever these stand before types are inferred.
void replace_input_sizes(Graph& graph, const std::map<std::string, Dim, std::less<>>& by) {
  const auto replaced = [&](const Dim& dim) {
    return dim.substitute([&](std::string_view name) -> std::optional<Dim> {
      const auto it = by.find(name);
      return it == by.end() ? std::nullopt : std::optional(it->second);
    });
  };
  for (Value* input : graph.inputs())
    for (Dim& dim : input->type->shape) dim = replaced(dim);
  for (Node* node : graph.nodes())
    for (auto& [name, attr] : node->attrs.entries)
      if (auto* dims = std::get_if<std::vector<Dim>>(&attr)) {
        for (Dim& dim : *dims) dim = replaced(dim);
        attr = dims_attr(std::move(*dims));
      }
  graph.replace_sizes(replaced);
}

}  // namespace

Result<> bind_shapes(Graph& graph, const std::map<std::string, std::vector<int64_t>>& shapes) {
  std::map<std::string, Dim, std::less<>> symbols;
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
      fits = shape[d].min() <= extents[d] && extents[d] <= shape[d].max();
    if (!fits)
      return fail(
          ErrorCode::E705,
          fmt::format("it cannot have the shape [{}]: it is {}", fmt::join(extents, ", "), input->type->to_string()),
          name);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d].symbol_name().empty()) continue;
      const auto [it, is_new] = symbols.emplace(shape[d].symbol_name(), extents[d]);
      if (!is_new && it->second.value() != extents[d])
        return fail(ErrorCode::E705,
                    fmt::format("\"{}\" is given as {} and as {}", it->first, it->second.value(), extents[d]), name);
    }
  }
  // What a file says of values was for the sizes that it was written with.
  if (!symbols.empty())
    for_each_graph(graph, [](Graph& g) {
      for (Node* node : g.nodes())
        for (Value* output : node->outputs)
          if (output->declared) std::ranges::fill(output->declared->shape, Dim::symbol("?"));
    });
  replace_input_sizes(graph, symbols);
  return {};
}

Result<> refine_sizes(Graph& graph, const OpenSizes& sizes) {
  std::map<std::string, Dim, std::less<>> open, refined;
  for (const Value* input : graph.inputs())
    for (const Dim& dim : input->shape())
      if (!dim.symbol_name().empty()) open.emplace(dim.symbol_name(), dim);
  for (const auto& [name, facts] : sizes) {
    const auto found = open.find(name);
    if (found == open.end()) {
      std::string known;
      for (const auto& [size, dim] : open) known += (known.empty() ? "" : ", ") + size;
      return fail(ErrorCode::E704, fmt::format("there is no open size \"{}\"{}", name,
                                               known.empty() ? "" : "; the open sizes are: " + known));
    }
    const Dim& dim = found->second;
    const int64_t divisor = std::max<int64_t>(1, facts.divisor.value_or(dim.divisor()));
    const int64_t least = std::max(dim.min(), ceildiv(Dim(facts.min.value_or(dim.min())), divisor).value() * divisor);
    const int64_t most = std::min(dim.max(), floordiv(Dim(facts.max.value_or(dim.max())), divisor).value() * divisor);
    if (least > most)
      return fail(ErrorCode::E705,
                  fmt::format("no size in {} to {} is a multiple of {}", facts.min.value_or(dim.min()),
                              facts.max.value_or(dim.max()), divisor),
                  name);
    if (!std::ranges::is_sorted(facts.points, std::ranges::less_equal()))
      return fail(ErrorCode::E709, "the values that kernels are made for must rise", name);
    const Dim narrow =
        Dim::symbol(name, least, most, divisor, facts.points.empty() ? dim.typical() : facts.points.back());
    if (facts.points.size() > 1 && least < most) graph.add_size_classes({narrow, facts.points});
    refined.emplace(name, least == most ? Dim(least) : narrow);
  }
  replace_input_sizes(graph, refined);
  return {};
}

Result<> declare_states(Graph& graph, const std::map<std::string, std::string>& inputs_of_outputs) {
  for (const auto& [output_name, input_name] : inputs_of_outputs) {
    GraphState state{.input = graph.find_input(input_name)};
    const auto output = std::ranges::find(graph.outputs(), output_name, &GraphOutput::name);
    if (!state.input || output == graph.outputs().end())
      return fail(ErrorCode::E704, fmt::format("there is no {} \"{}\" to be a state", state.input ? "output" : "input",
                                               state.input ? output_name : input_name));
    for (const GraphState& other : graph.states())
      if (other.input == state.input) return fail(ErrorCode::E704, "two states begin with it", input_name);
    state.output = static_cast<int>(output - graph.outputs().begin());
    const TensorType &before = *state.input->type, &after = *output->value->type;
    bool fits = before.dtype == after.dtype && before.shape.size() == after.shape.size();
    for (size_t d = 0; fits && d < before.shape.size(); ++d) {
      if (before.shape[d] == after.shape[d]) continue;
      fits = state.axis < 0;
      state.axis = static_cast<int>(d);
    }
    if (!fits)
      return fail(ErrorCode::E705,
                  fmt::format("\"{}\" is {}, and \"{}\" is {}: a state has one type, and grows along one axis",
                              input_name, before.to_string(), output_name, after.to_string()),
                  input_name);
    for (const Dim& dim : before.shape) {
      if (dim.max() >= kMaxDim)
        return fail(ErrorCode::E604,
                    fmt::format("a state needs room for its largest size: give --range {}=0..MOST", dim.to_string()),
                    input_name);
      state.capacity.push_back(dim.max());
    }
    graph.add_state(std::move(state));
  }
  return {};
}

namespace {

using SizeNames = std::set<std::string, std::less<>>;

void add_to(SizeNames& known, const std::vector<Dim>& dims) {
  for (const Dim& dim : dims)
    if (!dim.symbol_name().empty()) known.emplace(dim.symbol_name());
}

template <class IsKnown>
bool are_known(const Dim& dim, const IsKnown& is_known) {
  bool all = true;
  dim.for_each_symbol([&](const Dim& size) { all = all && is_known(size.symbol_name()); });
  return all;
}

// Sizes are those of the inputs, and what nodes before define.
Result<> require_sizes(const Graph& graph, SizeNames& known) {
  const auto is_known = [&](std::string_view size) { return known.contains(size); };
  for (const Node* node : graph.nodes()) {
    for (size_t i = 0; i < node->bodies.size(); ++i) {
      SizeNames inside = sizes_of_body(*node, i);
      std::erase_if(inside, is_known);
      known.insert(inside.begin(), inside.end());
      FETTLE_TRY_VOID(require_sizes(*node->bodies[i], known));
      for (const std::string& size : inside) known.erase(size);
    }
    add_to(known, defined_sizes(*node));
    for (const Value* output : node->outputs)
      if (!output->type || !std::ranges::all_of(output->shape(), [&](const Dim& d) { return are_known(d, is_known); }))
        return fail(ErrorCode::E604,
                    fmt::format("\"{}\" is {}, which the inputs' sizes do not tell", output->name,
                                output->type ? output->type->to_string() : "not typed"),
                    node->name);
  }
  return {};
}

}  // namespace

Result<> require_sizes(const Graph& graph) {
  SizeNames known;
  for (const Value* input : graph.inputs()) add_to(known, input->shape());
  FETTLE_TRY_VOID(require_sizes(graph, known));
  // What nodes define, or defined before nobody needed it.
  const auto is_or_was = [&](std::string_view size) { return known.contains(size) || graph.is_size_name(size); };
  for (const SizeCheck& check : graph.size_checks())
    if (!are_known(check.value, is_or_was))
      return fail(ErrorCode::E604, fmt::format("{}, which the inputs' sizes do not tell", check.message));
  return {};
}

}  // namespace fettle
