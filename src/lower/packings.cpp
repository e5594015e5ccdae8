#include "lower/packings.h"

#include <algorithm>
#include <unordered_set>

#include "ir/compare.h"
#include "ir/rewrite.h"
#include "lower/passes/passes.h"

namespace fettle {
namespace {

bool meet(const BufferSet& a, const BufferSet& b) {
  return std::ranges::any_of(a, [&](const BufferNode* buffer) { return b.contains(buffer); });
}

/// A nest around one block whose instances are independent, with a loop of its own for each iterator:
///   for a in 5: for b in 8: block (v = a * 8 + b): S   →   for v' in 40: block (v = v'): S
/// Others stay as they are: the order of a sum is part of its result.
Stmt without_tiling(const Stmt& nest) {
  const Stmt* at = &nest;
  while (const auto* loop = at->as<ForNode>()) at = &loop->body;
  const auto* block = at->as<BlockNode>();
  if (!block || block->predicate || block->init || !block->allocations.empty()) return nest;
  if (contains<BlockNode>(block->body, [](const BlockNode&) { return true; }) ||
      std::ranges::any_of(block->iters, [](const IterVar& i) { return i.kind != IterKind::kSpatial; }))
    return nest;
  std::vector<Var> vars;
  Stmt made = with(*block, [&](BlockNode& b) {
    b.reads.clear();
    b.writes.clear();
    b.annotations = {};
    for (IterVar& iter : b.iters) {
      vars.push_back(make_var(iter.var->name, iter.var->dtype));
      iter.binding = Expr(vars.back());
    }
  });
  for (size_t i = vars.size(); i-- > 0;) made = make_for(vars[i], Expr(0), block->iters[i].extent, made);
  return made;
}

}  // namespace

KernelConstants constants_of(const Func& scheduled) {
  const PrologueSplit split = split_prologue(scheduled);
  KernelConstants result;
  result.params = split.main->params;
  const AccessedBuffers main = accesses_of(split.main->body);
  for (const Param& param : result.params)
    result.is_read.push_back(main.reads.contains(param.buffer.get()) || main.writes.contains(param.buffer.get()));
  if (!split.prologue) return result;

  const BlockNode& root = split.prologue.root();
  const std::vector<Stmt> nests = parts_of(root.body);
  std::vector<AccessedBuffers> accesses;
  for (const Stmt& nest : nests) accesses.push_back(accesses_of(nest));

  for (size_t made = scheduled->params.size(); made < result.params.size(); ++made) {
    // The nests that it needs, last to first.
    BufferSet needed = {result.params[made].buffer.get()};
    std::vector<Stmt> own;
    for (size_t i = nests.size(); i-- > 0;) {
      if (!meet(accesses[i].writes, needed)) continue;
      own.insert(own.begin(), without_tiling(nests[i]));
      needed.insert(accesses[i].reads.begin(), accesses[i].reads.end());
    }
    Packing packing{made, {}, {}};
    const Func alone = with(split.prologue, [&](FuncNode& f) {
      f.params.clear();
      for (size_t i = 0; i < scheduled->params.size(); ++i) {
        const Param& param = result.params[i];
        if (!needed.contains(param.buffer.get())) continue;
        packing.sources.push_back(i);
        f.params.push_back({param.buffer, ParamKind::kInput, false});
      }
      f.params.push_back({result.params[made].buffer, ParamKind::kOutput, false});
      f.annotations = {};
      f.body = with(root, [&](BlockNode& block) {
        block.body = seq(own);
        // What other parameters are made of on the way counts as allocated here.
        block.allocations.clear();
        for (const Param& param : split.prologue->params)
          if (param.kind == ParamKind::kOutput && param.buffer != result.params[made].buffer &&
              needed.contains(param.buffer.get()))
            block.allocations.push_back(param.buffer);
        for (const Buffer& buffer : root.allocations)
          if (needed.contains(buffer.get())) block.allocations.push_back(buffer);
      });
    });
    packing.digest = canonical_hash(alone);
    result.packings.push_back(std::move(packing));
  }
  return result;
}

}  // namespace fettle
