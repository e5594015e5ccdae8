#include "ir/rewrite.h"
#include "ir/text.h"
#include "lower/decoupled.h"
#include "lower/passes/decoupled_passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// The one store of a nest; null where there are several, or something else stands there.
const StoreNode* only_store(const Stmt& s) {
  if (const auto* loop = s.as<ForNode>())
    return is_virtual_thread(loop->thread_axis) ? nullptr : only_store(loop->body);
  if (const auto* choice = s.as<IfNode>()) return choice->else_body ? nullptr : only_store(choice->then_body);
  return s.as<StoreNode>();
}

// The unit that a store belongs to; null: none.
const char* unit_of(const StoreNode& store) {
  bool reads_sums = false, reads_operands = false, reads_memory = false;
  each_node<LoadNode>(Stmt(make_ref<StoreNode>(store)), [&](const LoadNode& source) {
    reads_sums |= source.buffer->scope == "acc";
    reads_operands |= source.buffer->scope == "inp" || source.buffer->scope == "wgt";
    reads_memory |= source.buffer->scope == kScopeGlobal;
  });
  const std::string& scope = store.buffer->scope;
  if (scope == "acc") return kQueueCompute;
  if (scope == "inp" || scope == "wgt") return reads_memory && !reads_sums && !reads_operands ? kQueueLoad : nullptr;
  return reads_sums && !reads_memory && !reads_operands ? kQueueStore : nullptr;
}

class TaskIssuer : public StmtMutator {
 public:
  using Mutator::rewrite;
  Stmt rewrite(const Stmt& s) override {
    const StoreNode* task = s ? only_store(s) : nullptr;
    if (!task) return Mutator::rewrite(s);
    const char* unit = unit_of(*task);
    if (!unit) {
      if (verdict)
        verdict = fail(ErrorCode::E301,
                       "a store to " + task->buffer->name +
                           " belongs to no unit: loads fill inp and wgt from memory, "
                           "compute fills acc, and stores copy acc to memory",
                       "task\n" + to_text(s));
      return s;
    }
    return Stmt(make_ref<AsyncNode>(AsyncKind::kIssue, unit, nullptr, s));
  }

  Result<> verdict;
};

}  // namespace

Result<Stmt> issue_tasks(const Stmt& body) {
  TaskIssuer issuer;
  Stmt result = issuer.rewrite(body);
  FETTLE_TRY_VOID(issuer.verdict);
  return result;
}

}  // namespace fettle
