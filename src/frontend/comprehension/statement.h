#pragma once
// One statement: its indices, their ranges, and what must hold for it to stay inside of the tensors that it names.

#include <string>
#include <vector>

#include "base/result.h"
#include "frontend/comprehension/expression.h"
#include "graph/graph.h"

namespace fettle::comprehension {

/// What is known of a statement before anything is made of it.
struct Statement {
  const StatementTree* tree;
  ExpressionReader reader;
  Ranges ranges;                          // of the loops around, then of the statement's indices
  size_t n_loops;                         // as many of `ranges` are loops'
  std::vector<Form> place = {};           // the indices on the left
  std::vector<std::string> left = {};     // indices of the statement that stand there, in order
  std::vector<std::string> reduced = {};  // those on the right alone
  DType dtype = kF32;                     // of the value
  bool is_rectangular = true;             // no range depends on a variable
  bool is_in_order = false;               // it reads the tensor that it writes, at another place
  std::vector<SizeCheck> checks = {};     // of the sizes
};

/// What the left side may be.
enum class LeftSide : uint8_t {
  kIndices,  // of the statement, each once
  kAny,      // also variables of the loops around, and arithmetic of them
};

/// scope: the tensors as they are before the statement. loops: around it.
/// E612 names, types, indices that leave a tensor whatever the sizes are · E613 a range
Result<Statement> analyse(const Scope& scope, const Ranges& loops, const StatementTree& tree, LeftSide left);

/// Reads the statement's clauses and value again, with what `index` and `element` make of indices and elements.
Result<Value> value_of(Statement& statement, std::function<Expr(const std::string& index)> index,
                       ExpressionReader::ReadFn element);

/// "+=!"
std::string to_string(Assignment assignment, bool from_identity);

}  // namespace fettle::comprehension
