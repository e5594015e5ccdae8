#include "generations/ansor/sketch/scheduled.h"

#include <algorithm>

#include "ir/visit.h"
#include "schedule/dataflow/dataflow.h"

namespace fettle {

bool is_scheduled(const BlockNode& block) { return block.annotations.find(kScheduled) != nullptr; }

size_t first_own_loop(const Func& func, const BlockNode& block) {
  const auto loops = loops_around(func, &block);
  size_t first = loops.size();
  while (first > 0 && blocks_under(Stmt(Ref<const StmtNode>(loops[first - 1]))).size() == 1) --first;
  return first;
}

size_t first_loop_to_unroll(const Func& func, const BlockNode& block) {
  const auto loops = loops_around(func, &block);
  if (loops.empty()) return 0;
  const auto beside = blocks_under(Stmt(Ref<const StmtNode>(loops.front())));
  return std::ranges::any_of(beside, [](const BlockNode* b) { return is_scheduled(*b); }) ? first_own_loop(func, block)
                                                                                          : 0;
}

}  // namespace fettle
