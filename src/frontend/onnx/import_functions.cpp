// Functions of the model's own, which are inlined where they are called.

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "frontend/onnx/importer.h"
#include "frontend/onnx/normalize.h"

namespace fettle::onnx_reader {
namespace {

// Operators of these domains mean what ONNX says, whatever functions a model brings under their names.
bool is_of_onnx(const std::string& domain) { return is_standard_domain(domain) || domain.starts_with("ai.onnx."); }

template <class T>
std::string key_of(const T& proto, const std::string& name) {
  return fmt::format("{}\n{}\n{}", is_standard_domain(proto.domain()) ? "" : proto.domain(), name, proto.overload());
}

std::string label(const FunctionProto& function) {
  return (function.domain().empty() ? "" : function.domain() + ".") + function.name() +
         (function.overload().empty() ? "" : ":" + function.overload());
}

using Missing = std::map<std::string, std::vector<std::string>>;

Result<> report(const Missing& missing) {
  if (missing.empty()) return {};
  constexpr size_t kNamed = 8;
  std::string text;
  for (const auto& [op, nodes] : missing) {
    std::string names;
    for (size_t i = 0; i < std::min(nodes.size(), kNamed); ++i) names += (i ? ", " : "") + nodes[i];
    if (nodes.size() > kNamed) names += fmt::format(" and {} more", nodes.size() - kNamed);
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", op, names);
  }
  return fail(ErrorCode::E603, text);
}

}  // namespace

bool is_known_operator(const NodeProto& node) {
  const std::string op = op_label(node);
  return op == "Constant" || is_structure_op(op) || find_op(newest_name(op)) != nullptr;
}

Result<> Importer::index_functions() {
  for (const FunctionProto& function : model_->functions()) {
    if (!functions_.emplace(key_of(function, function.name()), &function).second)
      return fail(ErrorCode::E605, "a function of this name is defined twice", label(function));
  }
  return {};
}

const FunctionProto* Importer::function_of(const NodeProto& node) const {
  if (functions_.empty()) return nullptr;
  if (is_of_onnx(node.domain()) && is_known_operator(node)) return nullptr;
  const auto found = functions_.find(key_of(node, node.op_type()));
  return found == functions_.end() ? nullptr : found->second;
}

Result<> Importer::check_operators() const {
  Missing missing;
  std::set<const FunctionProto*> seen;
  std::vector<std::pair<const Nodes*, std::string>> left{{&model_->graph().node(), ""}};
  while (!left.empty()) {
    const auto [nodes, within] = left.back();
    left.pop_back();
    for (const NodeProto& node : *nodes) {
      if (const FunctionProto* function = function_of(node)) {
        if (seen.insert(function).second) left.emplace_back(&function->node(), function->name() + "/");
      } else if (!is_known_operator(node)) {
        missing[op_label(node)].push_back(within + node_label(node));
      }
      for (const AttributeProto& a : node.attribute()) {
        if (a.has_g()) left.emplace_back(&a.g().node(), within);
        for (const GraphProto& graph : a.graphs()) left.emplace_back(&graph.node(), within);
      }
    }
  }
  return report(missing);
}

Result<Importer::Extent> Importer::measure(const Nodes& nodes, int around) {
  Extent all{.nodes = nodes.size()};
  const auto add = [&](const Extent& part, int calls) -> Result<> {
    all.nodes += part.nodes;
    all.depth = std::max(all.depth, part.depth + calls);
    FETTLE_TRY_VOID(check_limit(limits_, &Limits::nodes, all.nodes));
    if (around + all.depth > kMaxCallDepth)
      return fail(ErrorCode::E608, fmt::format("functions call each other more than {} deep", kMaxCallDepth));
    return {};
  };
  FETTLE_TRY_VOID(add({}, 0));
  for (const NodeProto& node : nodes) {
    if (const FunctionProto* function = function_of(node)) {
      FETTLE_TRY_VOID(add({}, 1));
      if (extents_.try_emplace(function).second) {
        FETTLE_TRY(const Extent extent, measure(function->node(), around + 1));
        extents_[function] = extent;
      }
      const std::optional<Extent>& extent = extents_[function];
      if (!extent) return fail(ErrorCode::E605, fmt::format("the function {} calls itself", label(*function)));
      FETTLE_TRY_VOID(add(*extent, 1));
    }
    for (const AttributeProto& a : node.attribute()) {
      std::vector<const GraphProto*> graphs;
      if (a.has_g()) graphs.push_back(&a.g());
      for (const GraphProto& graph : a.graphs()) graphs.push_back(&graph);
      for (const GraphProto* graph : graphs) {
        FETTLE_TRY(const Extent extent, measure(graph->node(), around));
        FETTLE_TRY_VOID(add(extent, 0));
      }
    }
  }
  return all;
}

Result<> Importer::add_call(const FunctionProto& function, const NodeProto& node) {
  const std::string name = label(function);
  Call call{.function = &function, .attributes = {}};
  FETTLE_TRY(const std::vector<Structure> inputs, find_structures(node));
  if (node.input_size() > function.input_size() || node.output_size() > function.output_size())
    return fail(ErrorCode::E605,
                fmt::format("the function {} takes {} inputs and returns {} outputs; the call has {} and {}", name,
                            function.input_size(), function.output_size(), node.input_size(), node.output_size()));
  FETTLE_TRY(const std::vector<NamedAttribute> given, attributes_of(node));
  for (const AttributeProto& a : function.attribute_proto()) call.attributes[a.name()] = &a;
  for (const NamedAttribute& a : given) {
    if (!call.attributes.contains(a.name) && std::ranges::count(function.attribute(), a.name) == 0)
      return fail(ErrorCode::E606, fmt::format("the function {} has no attribute \"{}\"", name, a.name));
    call.attributes[std::string(a.name)] = a.value;
  }
  FETTLE_TRY(const int opset, opset_of(function.opset_import(), function.node(), opset_));

  // Its nodes go to this graph, and see nothing but its inputs.
  std::unordered_map<std::string, Value*> values;
  std::unordered_map<std::string, Structure> structures;
  for (int i = 0; i < function.input_size(); ++i) {
    const Structure input = i < node.input_size() ? inputs[static_cast<size_t>(i)] : Structure{{}, {nullptr}};
    const std::string& own = function.input(i);
    if (values.contains(own) || structures.contains(own))
      return fail(ErrorCode::E605, fmt::format("the function {} has two inputs \"{}\"", name, own));
    if (input.kind.is_tensor())
      values.emplace(own, input.tensors[0]);
    else
      structures.emplace(own, input);
  }
  const auto exchange_names = [&] {
    scope_->values.swap(values);
    scope_->structures.swap(structures);
  };
  std::string path = label_of(node);
  if (const auto [at, is_new] = paths_.try_emplace(path, 0); !is_new) path += fmt::format(".{}", ++at->second);
  path = std::exchange(path_, path + "/");
  Scope* const around = std::exchange(scope_->around, nullptr);
  const Call* const outer = std::exchange(call_, &call);
  const int outer_opset = std::exchange(opset_, opset);
  exchange_names();
  Result<> added = add_nodes(function.node());
  std::vector<std::optional<Structure>> results;
  for (const std::string& output : function.output()) results.push_back(find_structure(output, *scope_));
  exchange_names();
  opset_ = outer_opset;
  call_ = outer;
  path_ = std::move(path);
  scope_->around = around;
  if (!added) return added;
  for (int i = 0; i < node.output_size(); ++i) {
    if (node.output(i).empty()) continue;
    const std::optional<Structure>& result = results[static_cast<size_t>(i)];
    if (!result)
      return fail(ErrorCode::E605,
                  fmt::format("the function {} does not make its output \"{}\"", name, function.output(i)));
    FETTLE_TRY_VOID(define(node.output(i), *result, label_of(node)));
  }
  return {};
}

}  // namespace fettle::onnx_reader
