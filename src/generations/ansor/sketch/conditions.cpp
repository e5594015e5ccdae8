#include "generations/ansor/sketch/conditions.h"

#include <algorithm>

#include "generations/ansor/sketch/row_lanes.h"
#include "generations/ansor/sketch/scheduled.h"
#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/parts/structure.h"

namespace fettle {
namespace {

bool is_branch_or_costly(const Expr& value) {
  bool found = false;
  walk(value, [&](const Expr& e) {
    if (e.kind() == ExprKind::kSelect) found = true;
    if (const auto* call = e.as<CallNode>(); call && call->name != "likely") found = true;
    return !found;
  });
  return found;
}

// The iterator that an index is, perhaps plus a constant; null otherwise.
const VarNode* shifted_iter(const Expr& index) {
  if (const auto* var = index.as<VarNode>()) return var;
  const auto* sum = index.as<BinaryNode>();
  if (!sum || (sum->op != BinaryOp::kAdd && sum->op != BinaryOp::kSub)) return nullptr;
  if (as_int(sum->b)) return sum->a.as<VarNode>();
  return sum->op == BinaryOp::kAdd && as_int(sum->a) ? sum->b.as<VarNode>() : nullptr;
}

// The iterators of the block in the order of an access's dimensions; empty optional where an index is anything else.
std::optional<std::vector<size_t>> iters_in_order(const BlockNode& block, const std::vector<Expr>& indices) {
  std::vector<size_t> order;
  for (const Expr& index : indices) {
    if (as_int(index)) continue;
    const VarNode* var = shifted_iter(index);
    const auto at = std::ranges::find_if(block.iters, [&](const IterVar& iter) { return iter.var.get() == var; });
    if (!var || at == block.iters.end()) return std::nullopt;
    order.push_back(static_cast<size_t>(at - block.iters.begin()));
  }
  return order;
}

bool strictly_ascending(const std::vector<size_t>& order) {
  return std::ranges::adjacent_find(order, [](size_t a, size_t b) { return a >= b; }) == order.end();
}

int64_t extent_of(const IterVar& iter) {
  const int64_t* extent = as_int(iter.extent);
  return extent ? *extent : INT64_MAX;
}

bool saturating_multiply(int64_t& product, int64_t factor) {
  if (!__builtin_mul_overflow(product, factor, &product)) return true;
  product = INT64_MAX;
  return false;
}

// Points of the iterators of one kind; INT64_MAX where it is not known.
int64_t points_of(const BlockNode& block, IterKind kind) {
  int64_t points = 1;
  for (const IterVar& iter : block.iters)
    if (iter.kind == kind && !saturating_multiply(points, extent_of(iter))) return points;
  return points;
}

}  // namespace

bool is_padding(const BlockNode& block) {
  const auto* store = single_store(block);
  const auto* choice = store ? store->value.as<SelectNode>() : nullptr;
  const auto is_constant = [](const Expr& e) {
    return e.kind() == ExprKind::kIntImm || e.kind() == ExprKind::kFloatImm;
  };
  return choice && !block.init && choice->if_true.kind() == ExprKind::kLoad && is_constant(choice->if_false) &&
         std::ranges::all_of(block.iters, [](const IterVar& iter) { return iter.kind == IterKind::kSpatial; });
}

bool is_strict_inlinable(const Func& func, const BlockNode& block) {
  const StoreNode* store = single_store(block);
  if (is_in_row_lanes(block) || is_scheduled(block)) return false;  // it stands for a reduction
  if (!store || block.predicate || !is_complete(block, func.root()) || is_branch_or_costly(store->value)) return false;
  const auto written = iters_in_order(block, store->indices);
  if (!written || !strictly_ascending(*written)) return false;
  bool simple = true;
  walk(store->value, [&](const Expr& e) {
    const auto* load = e.as<LoadNode>();
    if (!load) return simple;
    const auto order = iters_in_order(block, load->indices);
    simple = simple && order && strictly_ascending(*order);
    return false;
  });
  return simple;
}

bool has_data_reuse(const Func& func, const BlockNode& block) {
  if (is_in_row_lanes(block) || is_scheduled(block)) return false;
  if (!is_complete(block, func.root()) && !is_reduction(block, func.root())) return false;
  int lacking = 0;
  for (const Region& read : block.reads) {
    if (write_region(block, read.buffer.get())) continue;
    const bool lacks = std::ranges::any_of(block.iters, [&](const IterVar& iter) {
      if (iter.kind != IterKind::kSpatial || extent_of(iter) <= 1) return false;
      return std::ranges::none_of(read.ranges, [&](const Range& range) { return uses_var(range.min, iter.var.get()); });
    });
    lacking += lacks ? 1 : 0;
  }
  return lacking >= 2 || (lacking == 1 && is_reduction(block, func.root()));
}

bool is_operand_of_product(const Func& func, const BlockNode& block) {
  const StoreNode* store = single_store(block);
  if (!store || block.init || block.writes.size() != 1) return false;
  const ExprKind kind = store->value.kind();
  if (kind == ExprKind::kLoad || kind == ExprKind::kCast) return false;
  const auto readers = consumers_of(func.root(), block.writes[0].buffer.get());
  return !readers.empty() && std::ranges::all_of(readers, [&](const BlockNode* reader) {
    return reader->init && has_data_reuse(func, *reader);
  });
}

bool is_always_inlined(const Func& func, const BlockNode& block, const Target* target) {
  if (!is_strict_inlinable(func, block) || is_param(func, block.writes[0].buffer.get())) return false;
  return (target && target->has_threads()) || !is_operand_of_product(func, block);
}

const BlockNode* fusible_consumer(const Func& func, const BlockNode& block) {
  if (block.writes.size() != 1) return nullptr;
  const BufferNode* buffer = block.writes[0].buffer.get();
  if (is_param(func, buffer)) return nullptr;
  const std::vector<const BlockNode*> readers = consumers_of(func.root(), buffer);
  if (readers.size() != 1) return nullptr;
  const BlockNode* reader = readers[0];
  const StoreNode* store = single_store(*reader);
  if (!store || !is_complete(*reader, func.root())) return nullptr;
  // Read where it is written, all of the block's domain.
  for (const std::vector<Expr>& indices : loads_of(reader->body, buffer)) {
    if (indices.size() != reader->iters.size() || indices.size() != store->indices.size()) return nullptr;
    for (size_t d = 0; d < indices.size(); ++d)
      if (indices[d].get() != reader->iters[d].var.get() || store->indices[d].get() != indices[d].get() ||
          extent_of(reader->iters[d]) == INT64_MAX || !as_int(buffer->shape[d]) ||
          extent_of(reader->iters[d]) != *as_int(buffer->shape[d]))
        return nullptr;
  }
  return reader;
}

bool has_more_reduction_parallel(const Func& func, const BlockNode& block, int cores) {
  if (is_in_row_lanes(block) || is_scheduled(block) || !is_reduction(block, func.root())) return false;
  const int64_t outputs = points_of(block, IterKind::kSpatial), terms = points_of(block, IterKind::kReduce);
  if (has_data_reuse(func, block)) return outputs <= terms && outputs <= int64_t{16} * cores;
  return terms > cores;
}

}  // namespace fettle
