#pragma once
// Patterns over graphs: what the rows of a table of rewrites look for.
//
//   const Pattern x = any("x");
//   {"x * sigmoid(x)", node("Mul", {node("Sigmoid", {x}), x}), nullptr, [](Graph& g, const Match& m) { … m["x"] … }}

#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/graph.h"
#include "graph/op.h"

namespace fettle::passes {

/// What a value may be. A name is given to the value that matches; the same name again is the same value.
struct Pattern {
  enum class Kind : uint8_t { kAny, kConstant, kNumber, kNode, kProduct, kOneOf, kSameElements };
  Kind kind = Kind::kAny;
  std::string_view name;
  std::string_view op;                         // kNode: the operator, or
  bool (*accepts)(const OpDef& op) = nullptr;  // any of these
  std::optional<double> number;                // kNumber: this one; kProduct: of its scalars
  bool is_exact = false;                       // not only about it
  bool is_only_use = false;                    // kNode
  std::optional<std::vector<Pattern>> inputs;  // kNode: all of them, or whatever; kProduct: factors; kOneOf: choices

  /// With a name; of a node that nothing but the pattern uses.
  Pattern as(std::string_view given) const;
  Pattern used_once() const;
};

Pattern any(std::string_view name);
Pattern constant(std::string_view name);
/// A constant of one element: any, about `value` (as its type has it), or `value`.
Pattern number(std::string_view name);
Pattern number(double value);
Pattern exactly(double value);
/// What such a node makes. Two inputs of a commutative operator match in either order, as written first.
Pattern node(std::string_view op, std::vector<Pattern> inputs);
/// The same whatever its inputs are; of any such operator.
Pattern node(std::string_view op);
Pattern node(bool (*accepts)(const OpDef& op));
/// A product, written as any tree that only it uses, of Mul nodes and divisions by numbers: these factors in any order,
/// and scalars whose product is about `scale`.
Pattern product(double scale, std::vector<Pattern> factors);
/// The first that matches.
Pattern one_of(std::vector<Pattern> choices);
/// Of a value, or of what lies behind reshapes and expansions that move and repeat nothing.
Pattern same_elements(Pattern pattern);

/// What a pattern has found.
class Match {
 public:
  /// The last of the nodes, which a rewrite replaces.
  Node* root() const { return root_; }
  /// The value of this name; null where the part of the pattern that has it was not taken.
  Value* operator[](std::string_view name) const;
  /// The node that makes it; null where there is none.
  Node* node(std::string_view name) const;
  /// The number that a constant of one element is.
  double number(std::string_view name) const;

 private:
  friend class Matcher;
  Node* root_ = nullptr;
  std::vector<std::pair<std::string_view, Value*>> values_;
};

/// Nothing where output 0 of the node does not match.
std::optional<Match> match(const Graph& graph, const Pattern& pattern, Node* node);

/// One row of a table.
struct Rewrite {
  std::string_view name;
  Pattern pattern;
  bool (*condition)(const Match& match);              // null: none
  bool (*replace)(Graph& graph, const Match& match);  // whether it changed the graph; the root may then be gone
};

/// Tries the row at a node that is used.
bool apply(Graph& graph, Node* node, const Rewrite& rewrite);

}  // namespace fettle::passes
