// Functions of one byte become look-ups in a table of their 256 results, which the pass's nodes spell out and
// fold_constants computes:
//   quantizelinear(mul(dequantizelinear(x), sigmoid(dequantizelinear(x)))) → bytelookup(x, [f(0), f(1), …, f(255)])

#include <algorithm>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "graph/passes/match.h"
#include "graph/passes/passes.h"
#include "ir/byte_table.h"
#include "ir/visit.h"

namespace fettle::passes {
namespace {

// Nodes of a function at most; operations of an element from which on a look-up is faster.
constexpr size_t kMostNodes = 64;
constexpr double kManyOperations = 20, kOfFunction = 10;
// Elements below which it does not matter.
constexpr int64_t kFewElements = 1024;

// Elementwise, of tensors of one shape and of single numbers that are constant.
bool is_of_elements(const Node* node, const Shape& shape) {
  const bool elementwise = node->op->fusion == FusionKind::kElementwise || node->op->fusion == FusionKind::kBroadcast;
  return elementwise && node->outputs.size() == 1 && node->op->compute && !is_host(*node) && node->bodies.empty() &&
         !(node->op->is_partial && node->op->is_partial(*node)) && node->output()->shape() == shape &&
         std::ranges::all_of(node->inputs, [&](const Value* input) {
           return !input || (input->is_constant() ? input->constant->n_elems() == 1 : input->shape() == shape);
         });
}

// The nodes between a value of bytes and another.
struct ByteFunction {
  Value* from = nullptr;
  std::vector<Node*> nodes;  // each before those that read it
};

// The longest one that makes the node's output. What is not looked into yet is a list, of which the value that is made
// last is looked into next: where there is but one value, all depends on it alone.
std::optional<ByteFunction> function_of(Node* last) {
  const Shape& shape = last->output()->shape();
  const auto later = [](const Value* a, const Value* b) {
    const auto at = [](const Value* v) { return v->producer ? static_cast<int64_t>(v->producer->position) : -1; };
    return std::pair(at(a), a) > std::pair(at(b), b);
  };
  std::set<Value*, decltype(later)> open(later);
  std::vector<Node*> nodes;
  std::optional<ByteFunction> found;
  for (Node* node = last; node && nodes.size() < kMostNodes && is_of_elements(node, shape);) {
    nodes.push_back(node);
    for (Value* input : node->inputs)
      if (input && !input->is_constant()) open.insert(input);
    if (open.empty()) break;
    Value* next = *open.begin();
    if (open.size() == 1 && is_byte(next->dtype())) found = ByteFunction{next, nodes};
    open.erase(open.begin());
    node = next->producer;
  }
  if (found) std::ranges::reverse(found->nodes);
  return found;
}

// Operations that the node's program does for an element; functions count as several.
double operations_of(const Node& node) {
  const auto func = node_func(node);
  if (!func) return 0;
  double operations = 0;
  const auto count = [&](const Expr& e) {
    if (e.as<CallNode>())
      operations += kOfFunction;
    else if (e.as<BinaryNode>() || e.as<SelectNode>())
      ++operations;
    return true;
  };
  walk((*func)->body, [](const Stmt&) { return true; }, count);
  return operations;
}

// The function's results for all bytes, the bits 0 … 255: a list, of nodes to be folded. Null where a node refuses.
Value* table_of(Graph& graph, const ByteFunction& function) {
  TensorBuilder bytes = make_tensor(function.from->dtype(), {kByteValues}).value();
  for (int64_t i = 0; i < kByteValues; ++i) bytes.bytes.get()[i] = static_cast<std::byte>(i);
  std::vector<int64_t> shape(static_cast<size_t>(function.from->rank()), 1);
  shape.back() = kByteValues;
  const Shape all(shape.begin(), shape.end());
  Value* argument = graph.add_constant(function.from->name + ".bytes", reshaped(std::move(bytes).finish(), shape));
  std::unordered_map<const Value*, Value*> results = {{function.from, argument}};
  for (const Node* node : function.nodes) {
    std::vector<Value*> inputs = node->inputs;
    for (Value*& input : inputs)
      if (const auto result = results.find(input); result != results.end()) input = result->second;
    const Node* again = insert_again(graph, node, std::move(inputs), all);
    if (!again) return nullptr;
    results[node->output()] = again->output();
  }
  const Node* last = function.nodes.back();
  return reshaped_value(graph, last, results[last->output()], {Dim(kByteValues)});
}

bool is_large(const ByteFunction& function) {
  const Value* from = function.from;
  if (from->is_constant() || from->rank() == 0 || element_count(from->shape()).typical() < kFewElements) return false;
  double operations = 0;
  for (const Node* node : function.nodes) operations += operations_of(*node);
  return operations >= kManyOperations;
}

}  // namespace

Result<> tabulate_bytes(Graph& graph, const PassContext&) {
  const std::vector<Node*> nodes = graph.nodes();
  std::unordered_set<const Node*> looked_up;
  for (size_t i = nodes.size(); i-- > 0;) {
    Node* node = nodes[i];
    if (node->erased || node->outputs.size() != 1) continue;
    if (looked_up.contains(node) && graph.use_count(node->output()) == 0) {
      graph.erase(node);
      continue;
    }
    if (!is_byte(node->output()->dtype())) continue;
    const auto function = function_of(node);
    if (!function || !is_large(*function)) continue;
    Value* table = table_of(graph, *function);
    Node* made = table ? replace_with(graph, node, "ByteLookup", {function->from, table}) : nullptr;
    if (!made) continue;
    for (const Node* done : function->nodes) {
      if (done != node) merge_provenance(made, done);
      looked_up.insert(done);
    }
  }
  return {};
}

}  // namespace fettle::passes
