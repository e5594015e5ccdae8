#include "graph/late_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "graph/op.h"
#include "graph/op_util.h"

namespace fettle {

bool is_size_definition(const Node& node) { return node.op->name == kDefineSizes; }

std::vector<Dim> dims_of_attr(const Node& node, std::string_view key) {
  const AttrValue* value = node.attrs.find(key);
  if (!value) return {};
  if (const auto* dims = std::get_if<std::vector<Dim>>(value)) return *dims;
  if (const auto* numbers = std::get_if<std::vector<int64_t>>(value)) return {numbers->begin(), numbers->end()};
  return {};
}

std::vector<Dim> defined_sizes(const Node& node) {
  std::vector<Dim> dims = dims_of_attr(node, kDefinesKey);
  std::erase_if(dims, [](const Dim& dim) { return dim.symbol_name().empty(); });
  return dims;
}

void for_each_size(const Node& node, const std::function<void(std::string_view size)>& visit) {
  const auto in = [&](const std::vector<Dim>& dims) {
    for (const Dim& dim : dims) dim.for_each_symbol([&](const Dim& size) { visit(size.symbol_name()); });
  };
  for (const auto& [name, attr] : node.attrs.entries)
    if (const auto* dims = std::get_if<std::vector<Dim>>(&attr)) in(*dims);
  for (const Value* output : node.outputs)
    if (output->type) in(output->shape());
  for (const auto& body : node.bodies)
    for (const Node* inner : body->nodes())
      if (!inner->erased) for_each_size(*inner, visit);
}

std::set<std::string, std::less<>> sizes_of_body(const Node& node, size_t i) {
  std::set<std::string, std::less<>> sizes;
  const auto add = [&](const std::vector<Dim>& dims) {
    for (const Dim& dim : dims)
      if (!dim.symbol_name().empty()) sizes.emplace(dim.symbol_name());
  };
  add(dims_of_attr(node, kCarriedSizesKey));
  if (const std::vector<Dim> runs = dims_of_attr(node, kRunsKey); i < runs.size()) add({runs[i]});
  for (const Node* inner : node.bodies[i]->nodes())
    if (!inner->erased) add(defined_sizes(*inner));
  return sizes;
}

bool mentions_any(const Dim& dim, const std::set<std::string, std::less<>>& sizes) {
  bool found = false;
  dim.for_each_symbol([&](const Dim& size) { found = found || sizes.contains(size.symbol_name()); });
  return found;
}

Node* add_size_definition(Graph& graph, Value* value, std::vector<Dim> dims) {
  const OpDef* op = find_op(kDefineSizes);
  FETTLE_CHECK(op);
  return graph.add_node(op, value->name + ".sizes", {value}, {{kDefinesKey, dims_attr(std::move(dims))}});
}

namespace {

/// Whether the elements of what the node makes are its inputs', or constants.
bool moves_elements(const Node& node) {
  return node.op->content && node.op->work == ElementWork::kMoves && node.outputs.size() == 1 &&
         std::ranges::none_of(node.inputs, [](const Value* input) { return !input; });
}

}  // namespace

bool define_sizes(Graph& graph, Value* value, int64_t min, int64_t max, int64_t typical) {
  constexpr int64_t kMost = 64;
  if (ops::content_of(*value)) return true;
  if (!value->is_static() || value->rank() > 1 || !value->dtype().is_int() || value->dtype().bits < 32) return false;
  const int64_t count = element_count(value->shape()).value();
  if (count > kMost) return false;
  // What is known of some elements stays known: sizes are those that are not.
  if (const Node* maker = value->producer; maker && moves_elements(*maker)) {
    for (Value* input : maker->inputs) define_sizes(graph, input, min, max, typical);
    value->content = maker->op->content(*maker);
    if (value->content) return true;
  }
  std::vector<Dim> sizes;
  for (int64_t i = 0; i < count; ++i)
    sizes.push_back(ops::fresh_size(value->rank() == 0 ? value->name + "[]" : fmt::format("{}[{}]", value->name, i),
                                    min, max, typical));
  value->content = sizes;
  add_size_definition(graph, value, std::move(sizes))->outputs[0]->type = value->type;
  return true;
}

}  // namespace fettle
