#include "schedule/edit/inlining.h"

#include <algorithm>

#include "analysis/block_checks.h"
#include "arith/affine_map.h"
#include "base/checks.h"
#include "ir/annotations.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/dataflow/footprint.h"
#include "schedule/dataflow/leaf.h"
#include "schedule/edit/placement.h"
#include "schedule/edit/steps.h"
#include "schedule/primitives/rolling_buffer.h"

namespace fettle {

std::string why_not_inlinable(const Func& func, const BlockNode& block, const BlockNode& scope, bool carried) {
  const StoreNode* target = single_store(block);
  if (block.init || !target || target->mask || block.writes.size() != 1) return "it is no single store";
  for (const IterVar& iter : block.iters)
    if (iter.kind != IterKind::kSpatial && !(carried && iter.kind == IterKind::kScan))
      return fmt::format("iterator {} is not spatial", iter.var->name);
  if (producers_of(scope, target->buffer.get()).size() != 1)
    return fmt::format("it is not alone in writing {}", target->buffer->name);
  if (read_region(block, target->buffer.get())) return fmt::format("it updates {} in place", target->buffer->name);
  if (const BlockNode* reader = carried ? nullptr : reader_ahead(block, scope); reader && checks("complete.readers"))
    return fmt::format("block {} ahead of it reads {}", reader->name, target->buffer->name);
  if (!carried && !predicate_only_bounds(func, block)) return "its predicate does more than bound its iterators";
  return {};
}

tl::unexpected<Diagnostic> not_inlinable(const Func& func, const BlockNode* block, const std::string& why) {
  return refused(ErrorCode::E214, func, block, "block {}: {}", block->name, why);
}

Result<> check_inlinable(const Func& func, const BlockNode* block, const BlockNode* scope) {
  if (!scope) return not_inlinable(func, block, "it is the root");
  FETTLE_TRY_VOID(check_not_rolling(func, *block));
  const std::string why = why_not_inlinable(func, *block, *scope, false);
  return why.empty() ? Result<>() : not_inlinable(func, block, why);
}

std::optional<VarMap> solve(const std::vector<IterVar>& iters, const std::vector<Expr>& pattern,
                            const std::vector<Expr>& target, Analyzer& analyzer) {
  VarMap solved;
  std::vector<Expr> simple;
  for (const Expr& index : target) simple.push_back(analyzer.simplify(index));
  if (unify(canonical_indices(pattern, iters), simple, iter_vars(iters), solved)) {
    // What the pattern does not mention must have one value only.
    for (const IterVar& iter : iters)
      if (!solved.contains(iter.var.get())) {
        if (!is_one(iter.extent)) return {};
        solved[iter.var.get()] = int_imm(0);
      }
    return solved;
  }
  IndexMap map;
  std::vector<Expr> shape;
  for (const IterVar& iter : iters) {
    map.inputs.push_back(iter.var);
    shape.push_back(iter.extent);
  }
  map.outputs = pattern;
  const auto inverse = invert(map, shape, analyzer);
  if (!inverse || !is_true(inverse->valid)) return {};
  const std::vector<Expr> values = inverse->inverse.apply(target);
  solved.clear();
  for (size_t i = 0; i < values.size(); ++i) solved[iters[i].var.get()] = analyzer.simplify(values[i]);
  return solved;
}

namespace {

class LoadReplacer : public Mutator {
 public:
  LoadReplacer(const BufferNode* buffer, const LoadValue& value) : buffer_(buffer), value_(value) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override {
    const auto* access = e.as<LoadNode>();
    if (!access || access->buffer.get() != buffer_) return Mutator::rewrite(e);
    std::vector<Expr> indices = access->indices;
    for (Expr& index : indices) index = rewrite(index);
    return value_(indices);
  }

 private:
  const BufferNode* buffer_;
  const LoadValue& value_;
};

}  // namespace

Expr replace_loads(const Expr& e, const BufferNode* buffer, const LoadValue& value) {
  return LoadReplacer(buffer, value).rewrite(e);
}

Stmt replace_loads(const Stmt& s, const BufferNode* buffer, const LoadValue& value) {
  return LoadReplacer(buffer, value).rewrite(s);
}

bool takes_address(const Stmt& s, const BufferNode* buffer) {
  bool found = false;
  walk(
      s,
      [&](const Stmt& x) {
        // What a block accesses, its regions name.
        const auto* block = x.as<BlockNode>();
        if (!block || !is_leaf(*block)) return true;
        found |=
            names_buffer(*block, buffer) && (takes_address(block->init, buffer) || takes_address(block->body, buffer));
        return false;
      },
      [&](const Expr& e) {
        const auto* pointer = e.as<AddressNode>();
        found |= pointer && pointer->buffer.get() == buffer;
        return !found;
      });
  return found;
}

bool one_to_one(const BlockNode& block, const BlockNode& producer, const VarMap& solved, Analyzer& analyzer) {
  Expr instances = int_imm(1), points = int_imm(1);
  for (const IterVar& iter : producer.iters)
    if (iter.kind == IterKind::kSpatial) instances = instances * iter.extent;
  for (const IterVar& iter : block.iters) {
    points = points * iter.extent;
    const Expr& value = solved.at(iter.var.get());
    const int64_t* extent = as_int(iter.extent);
    if (const Interval b = analyzer.int_bounds(value); extent && b.min >= 0 && b.max < *extent) continue;
    if (!analyzer.can_prove(ge(value, int_imm(0))) || !analyzer.can_prove(lt(value, iter.extent))) return false;
  }
  // Within the domain, and solved from a read that determines the iterators: equal counts make it a bijection.
  return analyzer.can_prove_equal(instances, points);
}

Result<> check_others_ready(const Func& func, const BlockNode& scope, const BlockNode* block,
                            const BlockNode* producer) {
  const std::vector<const BlockNode*> order = blocks_of(scope);
  for (const Region& read : block->reads)
    for (const BlockNode* other : order) {
      if (other == producer || !write_region(*other, read.buffer.get()) || other->annotations.find(kClearsPadLanesKey))
        continue;
      const std::vector<const ForNode*> around_block = loops_around(func, block);
      const std::vector<const ForNode*> around_producer = loops_around(func, producer);
      bool ready = std::ranges::find(order, other) < std::ranges::find(order, producer);
      for (const ForNode* loop : loops_around(func, other))
        if (std::ranges::find(around_producer, loop) != around_producer.end())
          ready &= std::ranges::find(around_block, loop) != around_block.end();
      if (!ready)
        return refused(ErrorCode::E227, func, other, "block {} writes {}, which is not ready where block {} runs",
                       other->name, read.buffer->name, producer->name);
    }
  return {};
}

}  // namespace fettle
