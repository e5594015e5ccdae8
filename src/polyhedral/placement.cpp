#include "polyhedral/placement.h"

#include <algorithm>

#include "schedule/dataflow/dataflow.h"

namespace fettle {

Result<std::pair<Stmt, const StmtNode*>> place_of(const Func& func, const std::vector<std::string>& blocks) {
  const auto is_one = [&](const BlockNode* block) { return std::ranges::find(blocks, block->name) != blocks.end(); };
  Stmt at = func.root().body;
  for (;;) {
    const bool has_others = !std::ranges::all_of(blocks_under(at), is_one);
    if (const auto* loop = at.as<ForNode>(); loop && has_others) {
      at = loop->body;
      continue;
    }
    const auto* sequence = at.as<SeqNode>();
    if (!sequence) return std::pair(at, at.get());
    std::vector<Stmt> stmts;
    for (const Stmt& child : sequence->stmts)
      if (std::ranges::any_of(blocks_under(child), is_one)) stmts.push_back(child);
    if (stmts.size() != 1 || std::ranges::all_of(blocks_under(stmts.front()), is_one))
      return std::pair(seq(std::move(stmts)), static_cast<const StmtNode*>(sequence));
    at = stmts.front();
  }
}

Expr value_at(const std::string& position, const std::vector<Var>& inputs) {
  if (position[0] == 'l') return Expr(inputs[static_cast<size_t>(std::stoi(position.substr(1)))]);
  return Expr(static_cast<int64_t>(std::stoll(position)));
}

Result<std::vector<LoopRef>> reschedule_with_copies(Schedule& s, const RescheduleArgs& args,
                                                    const std::vector<std::string>& blocks,
                                                    std::vector<std::string>& made) {
  std::vector<std::string> before;
  for (const BlockNode* block : blocks_of(s.func().root())) before.push_back(block->name);
  FETTLE_TRY(auto loops, reschedule(s, args));
  made = blocks;
  for (const BlockNode* block : blocks_of(s.func().root()))
    if (std::ranges::find(before, block->name) == before.end()) made.push_back(block->name);
  return loops;
}

}  // namespace fettle
