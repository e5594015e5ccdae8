#include <unordered_map>

#include "ir/rewrite.h"
#include "lower/passes/decoupled_passes.h"
#include "lower/passes/passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// Gives the buffers allocated in the body of one virtual thread's loop a place for each thread.
class Privatizer : public AccessMutator {
 public:
  Privatizer(const ForNode& loop, int64_t threads, const Target& target)
      : loop_(loop), threads_(threads), target_(target) {}
  using Mutator::rewrite;

  Buffer rewrite(const Buffer& buffer) override {
    const auto found = places_.find(buffer.get());
    return found == places_.end() ? buffer : found->second.buffer;
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<AllocateNode>()) {
      const int64_t* size = as_int(n->buffer->shape[0]);
      if (!size) return AccessMutator::rewrite(s);
      const MemoryScope* scope = target_.find_scope(n->buffer->scope);
      const int64_t element = n->buffer->dtype.element_bytes();
      const int64_t unit = scope && scope->alignment_bytes > element ? scope->alignment_bytes / element : 1;
      const int64_t place = (*size + unit - 1) / unit * unit;
      places_[n->buffer.get()] = {edited(n->buffer, [&](BufferNode& b) { b.shape = {Expr(place * threads_)}; }), place};
      return allocate(places_[n->buffer.get()].buffer, rewrite(n->body));
    }
    return AccessMutator::rewrite(s);
  }

 private:
  struct Places {
    Buffer buffer;
    int64_t size = 0;  // of one, in elements
  };
  std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) override {
    const auto found = places_.find(buffer.get());
    if (found == places_.end()) return std::nullopt;
    const Expr begin = (Expr(loop_.var) - loop_.min) * Expr(found->second.size);
    return Moved{found->second.buffer, {begin + rewrite(indices[0])}};
  }

  const ForNode& loop_;
  int64_t threads_;
  const Target& target_;
  std::unordered_map<const BufferNode*, Places> places_;
};

// A thread's tasks of one unit that follow one another stay together: a queue is in order, so what one thread loads
// must not wait behind what another one, still at work, has no place for yet.
bool same_unit(const Stmt& a, const Stmt& b) {
  const auto *x = a.as<AsyncNode>(), *y = b.as<AsyncNode>();
  return x && y && x->queue == y->queue;
}

Stmt inject(const ForNode& threads, const Stmt& s) {
  const VarNode* var = threads.var.get();
  if (const auto* loop = s.as<ForNode>(); loop && !uses_var(loop->min, var) && !uses_var(loop->extent, var))
    return with_body(*loop, inject(threads, loop->body));
  if (const auto* choice = s.as<IfNode>(); choice && !uses_var(choice->condition, var) && !choice->else_body)
    return if_then(choice->condition, inject(threads, choice->then_body));
  if (const auto* place = s.as<AllocateNode>()) return allocate(place->buffer, inject(threads, place->body));
  const auto* list = s.as<SeqNode>();
  if (!list) return copies_of(threads, s);
  std::vector<Stmt> stmts;
  for (size_t i = 0; i < list->stmts.size();) {
    const size_t first = i++;
    while (i < list->stmts.size() && same_unit(list->stmts[first], list->stmts[i])) ++i;
    const std::vector<Stmt> group(list->stmts.begin() + static_cast<std::ptrdiff_t>(first),
                                  list->stmts.begin() + static_cast<std::ptrdiff_t>(i));
    stmts.push_back(group.size() == 1 ? inject(threads, group[0]) : copies_of(threads, seq(group)));
  }
  return seq(std::move(stmts));
}

}  // namespace

Result<Stmt> interleave_virtual_threads(const Stmt& body, const Target& target) {
  Result<> verdict;
  // Inner threads first.
  Stmt result = rewrite_each<ForNode>(body, [&](const ForNode& loop) -> Stmt {
    if (!is_virtual_thread(loop.thread_axis)) return nullptr;
    if (const int64_t* threads = as_int(loop.extent))
      return inject(loop, Privatizer(loop, *threads, target).rewrite(loop.body));
    verdict = fail(ErrorCode::E301, "the number of virtual threads of loop " + loop.var->name + " is not constant");
    return nullptr;
  });
  FETTLE_TRY_VOID(verdict);
  return result;
}

}  // namespace fettle
