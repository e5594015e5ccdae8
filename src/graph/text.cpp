#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "graph/graph.h"
#include "graph/op.h"
#include "graph/strings.h"

namespace fettle {
namespace {

std::string attr_text(const AttrValue& value) {
  struct Print {
    std::string operator()(int64_t v) const { return std::to_string(v); }
    std::string operator()(double v) const { return fmt::format("{:g}", v); }
    std::string operator()(const std::string& v) const { return '"' + v + '"'; }
    std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const std::vector<double>& v) const { return fmt::format("[{:g}]", fmt::join(v, ", ")); }
    std::string operator()(const std::vector<std::string>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
    std::string operator()(const std::vector<Dim>& v) const { return to_string(v); }
    std::string operator()(const ConstantTensor& v) const {
      return v.dtype.to_string() + to_string(Shape(v.shape.begin(), v.shape.end()));
    }
  };
  return std::visit(Print{}, value);
}

std::string operand_text(const Value* value) {
  if (!value) return "-";
  if (!value->is_constant()) return value->name;
  const ConstantTensor& data = *value->constant;
  if (data.n_elems() == 1 && data.dtype.is_string()) return fmt::format("\"{}\"", string_of(data.int_at(0)));
  if (data.n_elems() == 1) return fmt::format("{:g}", data.at(0));
  return fmt::format("{}:{}{}", value->name, data.dtype.to_string(),
                     to_string(Shape(data.shape.begin(), data.shape.end())));
}

}  // namespace

namespace {

void add_lines(std::string& text, const Graph& graph, bool with_origins, const std::string& indent) {
  for (const Value* input : graph.inputs())
    text += fmt::format("{}input {}: {}\n", indent, input->name, input->type ? input->type->to_string() : "?");
  for (const Node* node : graph.nodes()) {
    if (node->erased) continue;
    text += indent;
    for (size_t i = 0; i < node->outputs.size(); ++i) {
      const Value& output = *node->outputs[i];
      text += fmt::format("{}{}: {}", i ? ", " : "", output.name, output.type ? output.type->to_string() : "?");
    }
    text += fmt::format(" = {}(", node->op->name);
    for (size_t i = 0; i < node->inputs.size(); ++i) text += (i ? ", " : "") + operand_text(node->inputs[i]);
    text += ")";
    std::string attrs;
    for (const auto& [name, value] : node->attrs.entries)
      attrs += (attrs.empty() ? "" : ", ") + name + "=" + attr_text(value);
    if (!attrs.empty()) text += " {" + attrs + "}";
    text += "\n";
    if (with_origins && !node->provenance.empty())
      text += fmt::format("{}    from {}\n", indent, to_text(node->provenance));
    for (const auto& body : node->bodies) {
      text += fmt::format("{}  body {}\n", indent, body->name());
      add_lines(text, *body, with_origins, indent + "    ");
    }
  }
  for (const GraphOutput& output : graph.outputs())
    text += fmt::format("{}output {} = {}\n", indent, output.name, operand_text(output.value));
}

}  // namespace

std::string to_text(const Graph& graph, bool with_origins) {
  std::string text = "graph " + graph.name() + "\n";
  add_lines(text, graph, with_origins, "  ");
  return text;
}

std::string histogram(const Graph& graph) {
  std::map<std::string_view, int> counts;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node* node : g.nodes())
      if (!node->erased) ++counts[node->op->name];
  });
  std::vector<std::pair<std::string_view, int>> sorted(counts.begin(), counts.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (const auto& [name, count] : sorted) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, count);
  return text;
}

}  // namespace fettle
