#pragma once
// Small questions that rewrites ask about nodes and values.

#include <cmath>
#include <optional>
#include <string_view>
#include <utility>

#include "graph/graph.h"
#include "graph/op.h"

namespace fettle::passes {

inline bool is(const Node* node, std::string_view op) { return node && !node->erased && node->op->name == op; }

/// The node that makes `value`, if it is an `op`.
inline Node* made_by(const Value* value, std::string_view op) {
  return value && !value->is_constant() && is(value->producer, op) ? value->producer : nullptr;
}
/// The same, if nothing else uses the value.
inline Node* made_only_for_us(const Graph& graph, const Value* value, std::string_view op) {
  Node* node = made_by(value, op);
  return node && graph.use_count(value) == 1 ? node : nullptr;
}

/// Whether output element i depends on element i of the inputs alone, which broadcast as NumPy's do.
inline bool is_pointwise(const Node* node) {
  if (!node || node->erased || node->outputs.size() != 1) return false;
  if (node->op->fusion == FusionKind::kElementwise) return node->inputs.size() == 1 && node->input(0);
  return node->op->fusion == FusionKind::kBroadcast && !is(node, "BatchNormalization") && !is(node, "OneHot");
}

/// The number, where all elements of a float constant are equal to it and it does not enlarge what it is combined with
/// (its rank is at most `rank` and its extents are 1).
inline std::optional<double> as_scalar(const Value* value) {
  if (!value || !value->is_constant() || value->constant->n_elems() != 1) return std::nullopt;
  return value->constant->at(0);
}
inline bool is_about(const Value* value, double number) {
  const auto v = as_scalar(value);
  return v && std::abs(*v - number) <= 1e-6 * std::max(1.0, std::abs(number));
}

/// Of a commutative node with two inputs: (the one for which `wanted` holds, the other); the second input is asked
/// first.
template <class Wanted>
std::optional<std::pair<Value*, Value*>> operands(const Node* node, const Wanted& wanted) {
  if (node->inputs.size() != 2) return std::nullopt;
  if (wanted(node->inputs[1])) return std::pair(node->inputs[1], node->inputs[0]);
  if (wanted(node->inputs[0])) return std::pair(node->inputs[0], node->inputs[1]);
  return std::nullopt;
}

/// A new node of one output with the type that its operator infers, put in the place of `old`: users and provenance
/// follow. The new node, or null where the rule does not allow it (nothing changes then).
Node* replace_with(Graph& graph, Node* old, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});
/// A new node with the inferred type. Null where the rule does not allow it.
Node* insert(Graph& graph, const Node* near, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});

}  // namespace fettle::passes
