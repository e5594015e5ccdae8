#include "schedule/edit/pipelining.h"

#include "analysis/dependence.h"
#include "ir/rewrite.h"
#include "schedule/dataflow/dataflow.h"
#include "schedule/edit/steps.h"

namespace fettle {
namespace {

// The part of the loop's body that holds the block, by number.
int part_of(const std::vector<Stmt>& parts, const BlockNode* block) {
  for (size_t p = 0; p < parts.size(); ++p)
    if (!path_to(parts[p], block).empty()) return static_cast<int>(p);
  return -1;
}

}  // namespace

std::vector<Stmt> pipeline_parts(const ForNode& loop) {
  const auto* body = loop.body.as<SeqNode>();
  return body ? body->stmts : std::vector<Stmt>{loop.body};
}

Result<> check_pipeline(const Func& func, const ForNode& loop, const std::vector<int64_t>& stages,
                        const std::vector<int64_t>& order) {
  const std::vector<Stmt> parts = pipeline_parts(loop);
  const auto keeps_order = [&](const BlockNode& from, const BlockNode& to, const BufferNode& buffer) {
    const int a = part_of(parts, &from), b = part_of(parts, &to);
    if (a < 0 || b < 0) return false;
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    if (stages[x] != stages[y] || (x < y) != (order[x] < order[y])) return false;
    for (size_t p = 0; p < parts.size(); ++p)
      if (stages[p] != stages[x] && accesses(parts[p], &buffer)) return false;
    return true;
  };
  if (auto apart = check_iterations_apart(func, loop, keeps_order); !apart)
    return refused(ErrorCode::E227, func, &loop, "{}", apart.error().message);
  const std::vector<BlockSite> sites = block_sites(func);
  const std::vector<const BlockNode*> inside = blocks_under(loop.body);
  const BlockSite* first = inside.empty() ? nullptr : find_site(sites, inside.front()->name);
  if (!first) return {};
  for (const Dependence& d : dependences_in(func, sites, first->parent)) {
    const BlockNode *from = sites[static_cast<size_t>(d.from)].block, *to = sites[static_cast<size_t>(d.to)].block;
    const int a = part_of(parts, from), b = part_of(parts, to);
    if (a < 0 || b < 0 || a == b) continue;
    const auto x = static_cast<size_t>(a), y = static_cast<size_t>(b);
    if (stages[x] < stages[y] || (stages[x] == stages[y] && order[x] < order[y])) continue;
    return refused(ErrorCode::E227, func, to, "block {} would run before block {}, which makes or uses {} first",
                   to->name, from->name, d.buffer->name);
  }
  return {};
}

}  // namespace fettle
