#pragma once
// Nodes that together stand for another one, and loops made of them.

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

/// Adds nodes to a graph, and remembers them in the order in which they are to be typed.
class NodeBuilder {
 public:
  /// prefix: what begins their names, "lstm." or nothing; provenance: whose work they do.
  NodeBuilder(Graph& graph, std::string prefix, Provenance provenance)
      : graph_(graph), prefix_(std::move(prefix)), provenance_(std::move(provenance)) {}

  Graph& graph() const { return graph_; }
  const Provenance& provenance() const { return provenance_; }
  const std::vector<Node*>& added() const { return added_; }
  std::string name(std::string_view what) const { return prefix_ + std::string(what); }

  Node* add(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs = {},
            size_t n_outputs = 1);
  /// The first output of such a node.
  Value* value(std::string_view op, std::string_view what, std::vector<Value*> inputs, Attrs attrs = {});
  /// A node that was made without the builder.
  void remember(Node* node);

  Value* constant(std::string_view what, ConstantTensor data) const;
  Value* number(std::string_view what, int64_t value) const;  // an i64 scalar

  /// The extent as an i64 scalar.
  Value* extent(Value* x, int64_t axis);
  /// x[…, index, …] at `axis`, which goes.
  Value* pick(std::string_view what, Value* x, Value* index, int64_t axis = 0);
  Value* transposed(Value* x, std::vector<int64_t> perm);
  /// The first axis from its end to its beginning.
  Value* reversed(Value* x);

 private:
  Graph& graph_;
  std::string prefix_;
  Provenance provenance_;
  std::vector<Node*> added_;
};

/// A Loop of `limit` iterations in the making. What it carries is stated first, then what its body reads.
class LoopBuilder {
 public:
  LoopBuilder(NodeBuilder& outside, Value* limit);

  NodeBuilder& body() { return body_; }
  Value* iteration() const { return iteration_; }
  /// limit - 1 - iteration
  Value* backwards();
  // A value of the body: what an iteration finds, or what it reads of the graph around.
  Value* carry(std::string name, Value* initial);
  Value* capture(std::string name, Value* outside);

  /// results: what the next iteration finds, one a carried value; rows: what iterations stack. The names are the body's
  /// for its outputs, and the node's for its own (may be empty).
  struct Result {
    std::string name;
    Value* value;
  };
  Node* finish(const std::string& name, const std::vector<Result>& results, const std::vector<Result>& rows,
               std::vector<std::string> outputs = {});

 private:
  NodeBuilder& outside_;
  std::shared_ptr<Graph> graph_;
  NodeBuilder body_;
  Value *iteration_, *condition_, *backwards_ = nullptr;
  std::vector<Value*> inputs_;
};

}  // namespace fettle::passes
