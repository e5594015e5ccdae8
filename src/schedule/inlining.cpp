#include "schedule/inlining.h"

#include <algorithm>

#include <fmt/format.h>

#include "arith/affine_map.h"
#include "ir/visit.h"
#include "schedule/dataflow.h"
#include "schedule/footprint.h"
#include "schedule/placement.h"

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
  if (!carried && !predicate_only_bounds(func, block)) return "its predicate does more than bound its iterators";
  return {};
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
      s, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* pointer = e.as<AddressNode>();
        found |= pointer && pointer->buffer.get() == buffer;
        return !found;
      });
  return found;
}

Analyzer analyzer_in(const Func& func, const BlockNode& block) {
  Analyzer analyzer;
  analyzer.bind_params(func);
  for (const IterVar& iter : block.iters) analyzer.bind(iter.var, int_imm(0), iter.extent);
  return analyzer;
}

}  // namespace fettle
