#pragma once
// How nodes give their inputs to their bodies, and bodies their results to nodes.

#include "graph/graph.h"

namespace fettle {

bool is_branch(const Node& node);  // If
bool is_loop(const Node& node);    // Loop
bool is_scan(const Node& node);    // Scan, which becomes a Loop before types are inferred

/// If(condition, argument…): the inputs of both bodies are the arguments.
inline constexpr size_t kFirstArgument = 1;

/// The parts of a loop. Each iteration runs the one body with
///   (number of the iteration: i64, condition: bool, carried…, captured…)  →  (condition, carried…, scanned…)
/// until `limit` iterations have run or the condition is false. The node's outputs are the carried values after the
/// last iteration, and what all iterations scanned, one row an iteration. The attribute "carried" counts the former.
struct LoopParts {
  explicit LoopParts(const Node& loop);

  const Node& node;
  int n_carried, n_scans;

  Value* limit() const { return node.inputs[0]; }            // null: none
  Value* first_condition() const { return node.inputs[1]; }  // null: true
  Value* initial(int i) const { return node.inputs[static_cast<size_t>(2 + i)]; }
  Value* iteration() const { return body().inputs()[0]; }
  Value* condition_in() const { return body().inputs()[1]; }
  Value* carried_in(int i) const { return body().inputs()[static_cast<size_t>(2 + i)]; }
  Value* condition_out() const { return body().outputs()[0].value; }
  Value* carried_out(int i) const { return body().outputs()[static_cast<size_t>(1 + i)].value; }
  Value* scan_out(int i) const { return body().outputs()[static_cast<size_t>(1 + n_carried + i)].value; }
  size_t first_captured() const { return static_cast<size_t>(2 + n_carried); }
  const Graph& body() const { return *node.bodies[0]; }

  /// Whether the condition is true before the first iteration and stays so.
  bool is_counted() const;
  /// How many iterations there are: a size of [0, limit] called after the node where it is not known.
  Dim iterations() const;
};

/// Where the inputs begin that bodies read: an If's arguments, what loops and scans capture. These have the same place
/// among a body's inputs, less `node_only` that only the node has.
struct Captured {
  size_t first, node_only;
};
Captured captured_inputs(const Node& node);

/// Constants that nodes give to their bodies become constants of the bodies; what a body doesn't read goes.
void settle_captured(Graph& graph, Node* node);
/// Adds the body's nodes to the graph, its inputs being `arguments`; the values that its outputs are.
std::vector<Value*> inline_body(Graph& graph, const Graph& body, const std::vector<Value*>& arguments,
                                const Provenance& provenance, std::vector<Node*>* added = nullptr);

}  // namespace fettle
