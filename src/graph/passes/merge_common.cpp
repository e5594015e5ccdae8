#include <cstring>
#include <map>
#include <string>
#include <unordered_map>

#include "base/hash.h"
#include "graph/op.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

uint64_t hash_of(const Node& node) {
  uint64_t h = hash_bytes(node.op->name);
  for (const Value* input : node.inputs) h = hash_combine(h, reinterpret_cast<uintptr_t>(input));
  for (const auto& [name, value] : node.attrs.entries) h = hash_combine(h, hash_bytes(name));
  return hash_combine(h, node.outputs.size());
}

bool same(const Node& a, const Node& b) {
  return a.bodies.empty() && b.bodies.empty() && a.op == b.op && a.inputs == b.inputs && a.attrs == b.attrs &&
         a.outputs.size() == b.outputs.size();
}

uint64_t hash_of(const ConstantTensor& data) {
  uint64_t h = hash_bytes({reinterpret_cast<const char*>(data.bytes.get()), static_cast<size_t>(data.size_bytes)});
  for (const int64_t extent : data.shape) h = hash_combine(h, static_cast<uint64_t>(extent));
  return hash_combine(h, hash_bytes(data.dtype.to_string()));
}

}  // namespace

Result<> merge_common(Graph& graph, const PassContext&) {
  constexpr int64_t kSmallBytes = 4096;
  std::unordered_map<const Value*, Value*> merged;
  std::unordered_multimap<uint64_t, Value*> constants;
  const auto representative = [&](Value* value) {
    auto [it, is_new] = merged.try_emplace(value, value);
    if (!is_new) return it->second;
    const uint64_t h = hash_of(*value->constant);
    const auto [first, last] = constants.equal_range(h);
    for (auto other = first; other != last; ++other)
      if (*other->second->constant == *value->constant) return it->second = other->second;
    constants.emplace(h, value);
    return value;
  };
  std::unordered_multimap<uint64_t, Node*> seen;
  for (Node* node : std::vector<Node*>(graph.nodes())) {
    if (node->erased) continue;
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      Value* input = node->inputs[i];
      if (!input || !input->is_constant() || input->constant->size_bytes > kSmallBytes) continue;
      if (Value* other = representative(input); other != input) graph.set_input(node, i, other);
    }
    const uint64_t h = hash_of(*node);
    const auto [first, last] = seen.equal_range(h);
    Node* twin = nullptr;
    for (auto it = first; it != last && !twin; ++it)
      if (same(*it->second, *node)) twin = it->second;
    if (!twin) {
      seen.emplace(h, node);
      continue;
    }
    for (size_t i = 0; i < node->outputs.size(); ++i) graph.replace_uses(node->outputs[i], twin->outputs[i]);
    merge_provenance(twin, node);
    graph.erase(node);
  }
  return {};
}

}  // namespace fettle::passes
