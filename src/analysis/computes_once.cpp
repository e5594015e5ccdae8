#include "analysis/computes_once.h"

#include <algorithm>

#include "ir/query.h"

namespace fettle {

bool computes_once(const Func& scheduled) {
  const auto is_bound = [](const BinaryNode& n) { return n.op == BinaryOp::kMin || n.op == BinaryOp::kMax; };
  return !find_node<BlockNode>(scheduled->body, [&](const BlockNode& block) {
    return std::ranges::any_of(block.iters,
                               [&](const IterVar& iter) { return find_node<BinaryNode>(iter.binding, is_bound); });
  });
}

}  // namespace fettle
