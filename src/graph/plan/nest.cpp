#include "graph/plan/nest.h"

#include <algorithm>
#include <unordered_set>

#include "ir/fold.h"
#include "ir/visit.h"

namespace fettle {

std::vector<Stmt> nests_of(const Func& func) {
  const Stmt& body = func.root().body;
  if (const auto* list = body.as<SeqNode>()) return list->stmts;
  return {body};
}

Nest open_nest(const Stmt& stmt) {
  Nest nest;
  const Stmt* at = &stmt;
  while (const auto* loop = at->as<ForNode>()) {
    nest.loops.push_back(loop);
    at = &loop->body;
  }
  nest.block = at->as<BlockNode>();
  return nest;
}

Stmt close_nest(const Nest& nest, Stmt body) {
  for (size_t i = nest.loops.size(); i-- > 0;) body = with(*nest.loops[i], [&](ForNode& f) { f.body = body; });
  return body;
}

Func with_nests(const Func& func, std::vector<Stmt> nests, std::vector<Buffer> allocations) {
  const Stmt root = with(func.root(), [&](BlockNode& b) {
    b.body = seq(std::move(nests));
    b.allocations = std::move(allocations);
  });
  return with(func, [&](FuncNode& f) { f.body = root; });
}

bool is_plain(const Nest& nest) {
  if (!nest.block || nest.block->predicate || nest.loops.size() != nest.block->iters.size()) return false;
  for (size_t i = 0; i < nest.loops.size(); ++i)
    if (nest.block->iters[i].binding.get() != nest.loops[i]->var.get() || !is_zero(nest.loops[i]->min)) return false;
  return true;
}

void find_regions(BlockNode& block) {
  RegionUnion reads, writes;
  for (RegionUnion* regions : {&reads, &writes}) regions->bind(block.body);
  const auto is_local = [&](const Buffer& buffer) {
    return std::ranges::find(block.allocations, buffer) != block.allocations.end();
  };
  std::unordered_set<const BufferNode*> written;
  walk(block.body, [&](const Stmt& s) {
    if (const auto* n = s.as<StoreNode>(); n && !is_local(n->buffer)) {
      writes.add(n->buffer, n->indices);
      written.insert(n->buffer.get());
    }
    return true;
  });
  walk(
      block.body, [](const Stmt&) { return true; },
      [&](const Expr& e) {
        const auto* n = e.as<LoadNode>();
        if (n && !is_local(n->buffer) && !(block.init && written.contains(n->buffer.get())))
          reads.add(n->buffer, n->indices);
        return true;
      });
  block.reads = reads.take();
  block.writes = writes.take();
}

}  // namespace fettle
