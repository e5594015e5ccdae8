#pragma once
// Small questions that rewrites ask about nodes and values.

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

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

/// The one use of the value; null where there are more, or where it goes out of the model.
inline Node* only_user(const Graph& graph, const Value* value) {
  return graph.use_count(value) == 1 && value->users.size() == 1 ? value->users[0] : nullptr;
}

/// Whether the node has the trait, and none of its inputs is left out.
inline bool is_pointwise(const Node* node) {
  return node && !node->erased && node->op->is_pointwise &&
         std::ranges::all_of(node->inputs, [](const Value* v) { return v; });
}

inline bool is_byte(DType dtype) { return dtype == kI8 || dtype == kU8; }

/// The number, where the value is a constant of one element.
inline std::optional<double> as_scalar(const Value* value) {
  if (!value || !value->is_constant() || value->constant->n_elems() != 1) return std::nullopt;
  return value->constant->at(0);
}
/// How far, relatively, a constant of this type may lie from the number that it stands for.
inline double constant_error(DType dtype) {
  if (!dtype.is_float() || dtype.bits >= 32) return 1e-6;
  return dtype == kBF16 ? 0x1p-8 : 0x1p-11;
}
inline bool is_about(const Value* value, double number) {
  const auto v = as_scalar(value);
  return v && std::abs(*v - number) <= constant_error(value->constant->dtype) * std::max(1.0, std::abs(number));
}

/// A constant that a rewrite computes: as exact as those that it replaces. Singles and doubles are. Halves must have
/// each number exactly, since what they replace was computed in single precision. Nothing where they do not.
std::optional<ConstantTensor> exact_constant(std::span<const double> values, DType dtype, std::vector<int64_t> shape);
inline std::optional<ConstantTensor> exact_scalar(double value, DType dtype) {
  return exact_constant({&value, 1}, dtype, {});
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

/// What a Transpose permutes by.
std::vector<int64_t> permutation(const Node* node);
/// The attributes of a Reshape to this shape.
inline Attrs reshape_attrs(Shape shape) { return {{"allowzero", int64_t{1}}, {"shape", dims_attr(std::move(shape))}}; }
/// The value, or a Reshape of it; null where the rule does not allow one.
Value* reshaped_value(Graph& graph, const Node* near, Value* value, const Shape& shape);

/// A new node of one output with the type that its operator infers, put in the place of `old`: users and provenance
/// follow. The new node, or null where the rule does not allow it (nothing changes then).
Node* replace_with(Graph& graph, Node* old, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});
/// `node` takes the place, and the name, of `old`. Returns it.
Node* put_in_place(Graph& graph, Node* old, Node* node);
/// A new node with the inferred type. Null where the rule does not allow it.
Node* insert(Graph& graph, const Node* near, std::string_view op, std::vector<Value*> inputs, Attrs attrs = {});
/// The elementwise `node` again, over other inputs. Null where its result would not have this shape.
Node* insert_again(Graph& graph, const Node* node, std::vector<Value*> inputs, const Shape& shape);

}  // namespace fettle::passes
