#include "schedule/dataflow/overwriting.h"

#include "ir/visit.h"

namespace fettle {

const BlockNode* other_writer(const Func& func, const BlockNode& block, const BufferNode* buffer) {
  const BlockNode* found = nullptr;
  walk(func->body, [&](const Stmt& s) {
    const auto* other = s.as<BlockNode>();
    if (!other || found) return !found;
    if (other == &block) return false;
    if (path_to(s, &block).empty()) {
      if (write_region(*other, buffer)) found = other;
      return false;  // what is inside of it is said by its regions
    }
    return true;
  });
  return found;
}

bool stores_always(const BlockNode& block, const BufferNode* buffer) {
  bool always = true;
  walk(block.body, [&](const Stmt& s) {
    const bool may_not_run = s.as<IfNode>() || s.as<WhileNode>() || s.as<BlockNode>();
    if (may_not_run) always &= stores_of(s, buffer).empty();
    if (const auto* target = s.as<StoreNode>()) always &= target->buffer.get() != buffer || !target->mask;
    return always && !may_not_run;
  });
  return always;
}

}  // namespace fettle
