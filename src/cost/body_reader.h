#pragma once
// A straight-line piece of lowered code → counts of instructions and streams of accesses.

#include <functional>
#include <unordered_map>

#include "arith/int_eval.h"
#include "cost/loop_tree.h"
#include "ir/stmt.h"

namespace fettle {

/// Where a buffer of the piece lies: an entry of LoopTree::buffers, and bytes from its start.
struct BufferPlace {
  int buffer = 0;
  Expr base;  // elements, in variables of the caller; null: 0
};

struct BodyContext {
  int vector_bytes = 64;
  /// All loops around, outermost first, and how often each runs.
  const std::vector<std::pair<const VarNode*, double>>* loops = nullptr;
  IntEnv* env = nullptr;  // every loop variable in the middle of its range
  std::function<BufferPlace(const BufferNode*)> place;
};

/// Fills `work` and `streams` of a node from stores and evaluations in a row.
void read_body(const std::vector<Stmt>& stmts, const BodyContext& context, CostNode& node);

}  // namespace fettle
