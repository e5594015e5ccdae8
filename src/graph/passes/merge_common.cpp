#include <algorithm>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

uint64_t hash_of(const ConstantTensor& data) {
  uint64_t h = hash_bytes({reinterpret_cast<const char*>(data.bytes.get()), static_cast<size_t>(data.size_bytes)});
  for (const int64_t extent : data.shape) h = hash_combine(h, static_cast<uint64_t>(extent));
  return hash_combine(h, hash_bytes(data.dtype.to_string()));
}

uint64_t hash_of(const AttrValue& value) {
  const auto of_one = []<class T>(const T& x) -> uint64_t {
    if constexpr (std::is_same_v<T, std::string>)
      return hash_bytes(x);
    else if constexpr (std::is_same_v<T, Dim>)
      return hash_bytes(x.to_string());
    else
      return std::hash<T>()(x);
  };
  return std::visit(
      [&]<class T>(const T& x) -> uint64_t {
        if constexpr (std::is_same_v<T, ConstantTensor>) {
          return hash_of(x);
        } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
          uint64_t h = x.size();
          for (const auto& item : x) h = hash_combine(h, of_one(item));
          return h;
        } else {
          return of_one(x);
        }
      },
      value);
}

}  // namespace

Result<> merge_common(Graph& graph, const PassContext&) {
  constexpr int64_t kSmallBytes = 4096;
  std::unordered_map<const Value*, Value*> instead;  // a value that has a twin: that one; a small constant: its first
  std::vector<std::pair<Value*, Value*>> pairs;
  const auto replace = [&](Value* value, Value* by) {
    instead.emplace(value, by);
    if (value != by) pairs.emplace_back(value, by);
  };
  std::unordered_multimap<uint64_t, Value*> constants;
  const auto look_for_twin = [&](Value* value) {
    const uint64_t h = hash_of(*value->constant);
    const auto [first, last] = constants.equal_range(h);
    const auto twin =
        std::find_if(first, last, [&](const auto& other) { return *other.second->constant == *value->constant; });
    if (twin != last) return replace(value, twin->second);
    constants.emplace(h, value);
    replace(value, value);
  };
  const auto of = [&](Value* value) {
    const auto found = instead.find(value);
    return found == instead.end() ? value : found->second;
  };
  const auto same = [&](const Node& a, const Node& b) {
    return a.op == b.op && a.attrs == b.attrs && a.outputs.size() == b.outputs.size() &&
           std::ranges::equal(a.inputs, b.inputs, {}, of, of);
  };
  std::unordered_multimap<uint64_t, Node*> seen;
  std::vector<Node*> gone;
  for (Node* node : graph.nodes()) {
    if (node->erased) continue;
    for (Value* input : node->inputs)
      if (input && input->is_constant() && input->constant->size_bytes <= kSmallBytes && !instead.contains(input))
        look_for_twin(input);
    if (!node->bodies.empty()) continue;
    uint64_t h = hash_combine(hash_bytes(node->op->name), node->outputs.size());
    for (Value* input : node->inputs) h = hash_combine(h, reinterpret_cast<uintptr_t>(of(input)));
    for (const auto& [name, value] : node->attrs.entries)
      h = hash_combine(hash_combine(h, hash_bytes(name)), hash_of(value));
    const auto [first, last] = seen.equal_range(h);
    const auto found = std::find_if(first, last, [&](const auto& other) { return same(*other.second, *node); });
    if (found == last) {
      seen.emplace(h, node);
      continue;
    }
    Node* twin = found->second;
    for (size_t i = 0; i < node->outputs.size(); ++i) replace(node->outputs[i], twin->outputs[i]);
    merge_provenance(twin, node);
    gone.push_back(node);
  }
  graph.replace_uses(pairs, gone);
  return {};
}

}  // namespace fettle::passes
