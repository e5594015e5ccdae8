#include "driver/necessary_work.h"

#include <algorithm>
#include <limits>
#include <set>
#include <unordered_map>

#include "ir/compare.h"
#include "ir/visit.h"
#include "lower/passes/math_functions.h"
#include "schedule/dataflow/combiner.h"
#include "schedule/dataflow/dataflow.h"
#include "tune/bound.h"
#include "tune/parts/structure.h"
#include "tune/parts/winograd.h"

namespace fettle {
namespace {

/// How many elements of each buffer are read at most: one for each load and point of its block. A table of which a few
/// rows are looked up counts with these.
std::unordered_map<const BufferNode*, double> elements_read(const Func& func) {
  std::unordered_map<const BufferNode*, double> read;
  walk(func->body, [&](const Stmt& s) {
    const auto* block = s.as<BlockNode>();
    if (!block || block->iters.empty()) return true;
    double points = 1;
    for (const auto& iter : block->iters)
      if (const auto* extent = iter.extent.as<IntImmNode>()) points *= static_cast<double>(extent->value);
    walk(
        block->body, [](const Stmt&) { return true; },
        [&](const Expr& e) {
          if (const auto* source = e.as<LoadNode>()) read[source->buffer.get()] += points;
          return true;
        });
    return true;
  });
  return read;
}

std::vector<Expr> children_of(const Expr& e) {
  std::vector<Expr> children;
  walk(e, [&](const Expr& below) {
    const bool itself = below.get() == e.get();
    if (!itself) children.push_back(below);
    return itself;
  });
  return children;
}

bool is_float_product(const Expr& e) {
  const auto* binary = e.as<BinaryNode>();
  return binary && binary->op == BinaryOp::kMul && e.dtype().is_float();
}

struct Operations {
  double operations = 0, products = 0;  // as NecessaryWork's
};

/// The operations of one block's values, each as often as the iterators say that it depends on.
class OperationCount {
 public:
  OperationCount(const BlockNode& block, const std::set<const BufferNode*>& sums) : sums_(sums) {
    for (const IterVar& iter : block.iters) {
      const int64_t* extent = as_int(iter.extent);
      extents_[iter.var.get()] = extent ? static_cast<double>(*extent) : 1;
    }
  }

  using Iters = std::set<const VarNode*>;

  /// Adds those of `e`; returns the iterators on which it depends. `fused`: the product that `e` is belongs to a
  /// multiply-add which is counted.
  Iters add(const Expr& e, bool fused = false) {
    if (const auto* var = e.as<VarNode>()) {
      if (const auto named = named_.find(var); named != named_.end()) return named->second;
      return extents_.contains(var) ? Iters{var} : Iters{};
    }
    if (const auto* call = e.as<CallNode>(); call && e.dtype().is_float() && is_expanded_math(call->name)) {
      const BindValue bind = [&](const Expr& value) {
        const Var name = make_var("t", value.dtype());
        kept_.push_back(name);
        named_[name.get()] = add(value);
        return Expr(name);
      };
      if (const Expr expanded = expand_math_function(call->name, call->args, bind)) return add(expanded);
    }
    for (const auto& [before, iters] : seen_)
      if (structural_equal(before, e)) return iters;
    Iters iters;
    const auto* binary = e.as<BinaryNode>();
    const bool sum = binary && (binary->op == BinaryOp::kAdd || binary->op == BinaryOp::kSub);
    bool free = fused;
    bool product = false;  // one of the terms is in the same multiply-add
    for (const Expr& child : children_of(e)) {
      const bool joins = sum && !product && is_float_product(child);
      product |= joins;
      free |= sum && starts_from(child);
      iters.merge(add(child, joins));
    }
    const bool counts = e.dtype().is_float() && !free && (is_arithmetic(binary) || is_operation(e.as<CallNode>()));
    if (counts) {
      const auto* call = e.as<CallNode>();
      const bool multiplies = product || is_float_product(e) || (call && call->name == "fma");
      const double lanes = points(iters) * (e.dtype().bits == 64 ? 2 : 1);
      total_.operations += lanes;
      total_.products += multiplies ? lanes : 0;
      seen_.emplace_back(e, iters);
    }
    return iters;
  }

  double points(const Iters& iters) const {
    double count = 1;
    for (const VarNode* var : iters) count *= extents_.at(var);
    return count;
  }

  const Operations& total() const { return total_; }

 private:
  static bool is_arithmetic(const BinaryNode* e) {
    if (!e) return false;
    switch (e->op) {
      case BinaryOp::kAdd:
      case BinaryOp::kSub:
      case BinaryOp::kMul:
      case BinaryOp::kDiv:
      case BinaryOp::kMin:
      case BinaryOp::kMax:
      case BinaryOp::kOrderedMax:
        return true;
      default:
        return false;
    }
  }
  static bool is_operation(const CallNode* call) {
    return call && (call->name == "fma" || call->name == "sqrt" || call->name == "scale" || call->name == "floor" ||
                    call->name == "ceil" || call->name == "round" || call->name == "trunc");
  }
  bool starts_from(const Expr& e) const {
    const auto* load = e.as<LoadNode>();
    return load && sums_.contains(load->buffer.get());
  }

  const std::set<const BufferNode*>& sums_;
  std::unordered_map<const VarNode*, double> extents_;
  std::unordered_map<const VarNode*, Iters> named_;
  std::vector<Var> kept_;                     // the names'
  std::vector<std::pair<Expr, Iters>> seen_;  // is worked out once
  Operations total_;
};

Operations operations_of(const Func& func, const BlockNode& block, const std::set<const BufferNode*>& sums) {
  OperationCount count(block, sums);
  if (!block.init) {
    const StoreNode* store = single_store(block);
    if (store) count.add(store->value);
    return count.total();
  }
  const auto combiner = match_combiner(func, block);
  if (!combiner) return {};
  const auto* combine = combiner->update->value.as<BinaryNode>();
  const bool fused = combine->op == BinaryOp::kAdd && is_float_product(combiner->term);
  count.add(combiner->term, fused);
  OperationCount::Iters every, spatial;
  for (const IterVar& iter : block.iters) {
    every.insert(iter.var.get());
    if (iter.kind != IterKind::kReduce) spatial.insert(iter.var.get());
  }
  const double points = count.points(every), results = count.points(spatial);
  Operations total = count.total();
  if (combiner->update->buffer->dtype.is_float()) {
    total.operations += points - (fused ? 0 : results);
    total.products += fused ? points : 0;
  }
  return total;
}

/// Those of everything but contractions, which flops has.
Operations other_operations(const Func& func) {
  const Paddings paddings(func);
  std::set<const BufferNode*> sums;
  Operations all;
  for (const BlockNode* block : blocks_of(func.root())) {
    const auto structure = block_structure(func, *block);
    if (!structure) continue;
    if (block->init) sums.insert(structure->store.buffer.get());
    double share = structure->multiplies_two_loads ? 0 : paddings.share_inside(*structure);
    // How much of it is skipped is not known.
    if (std::ranges::any_of(structure->loads, &AccessPattern::guarded)) share = 0;
    if (share == 0) continue;
    const Operations own = operations_of(func, *block, sums);
    all.operations += share * own.operations;
    all.products += share * own.products;
  }
  return all;
}

}  // namespace

NecessaryWork necessary_work(const Func& workload) {
  constexpr double kAnyError = std::numeric_limits<double>::infinity();
  NecessaryWork work{.flops = needed_flops(workload) * least_share_of_products(workload, kAnyError)};
  const Operations others = other_operations(workload);
  work.operations = work.flops / 2 + others.operations;
  work.products = work.flops / 2 + others.products;
  const auto read = elements_read(workload);
  for (const Param& param : workload->params) {
    double elems = 1;
    for (const Expr& extent : param.buffer->shape)
      if (const auto* number = extent.as<IntImmNode>()) elems *= static_cast<double>(number->value);
    const auto found = read.find(param.buffer.get());
    if (found != read.end()) elems = std::min(elems, found->second);
    const double bytes = elems * static_cast<double>(param.buffer->dtype.element_bytes());
    (param.kind == ParamKind::kOutput ? work.written_bytes : work.read_bytes) += bytes;
  }
  return work;
}

}  // namespace fettle
