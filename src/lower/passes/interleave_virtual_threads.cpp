#include <unordered_map>

#include "ir/visit.h"
#include "lower/passes/decoupled_passes.h"
#include "target/thread_axes.h"

namespace fettle {
namespace {

// Gives the buffers allocated in the body of one virtual thread's loop a place for each thread.
class Privatizer : public Mutator {
 public:
  Privatizer(const ForNode& loop, int64_t threads, const Target& target)
      : loop_(loop), threads_(threads), target_(target) {}
  using Mutator::rewrite;

  Buffer rewrite(const Buffer& buffer) override {
    const auto found = places_.find(buffer.get());
    return found == places_.end() ? buffer : found->second.buffer;
  }
  Expr rewrite(const Expr& e) override {
    if (const auto* source = e.as<LoadNode>())
      if (const auto found = places_.find(source->buffer.get()); found != places_.end())
        return load(found->second.buffer, {own(found->second, source->indices[0])}, rewrite(source->mask));
    return Mutator::rewrite(e);
  }
  Stmt rewrite(const Stmt& s) override {
    if (const auto* n = s.as<AllocateNode>()) {
      const int64_t* size = as_int(n->buffer->shape[0]);
      if (!size) return Mutator::rewrite(s);
      const MemoryScope* scope = target_.find_scope(n->buffer->scope);
      const int64_t element = n->buffer->dtype.element_bytes();
      const int64_t unit = scope && scope->alignment_bytes > element ? scope->alignment_bytes / element : 1;
      const int64_t place = (*size + unit - 1) / unit * unit;
      places_[n->buffer.get()] = {edited(n->buffer, [&](BufferNode& b) { b.shape = {Expr(place * threads_)}; }), place};
      return allocate(places_[n->buffer.get()].buffer, rewrite(n->body));
    }
    if (const auto* target = s.as<StoreNode>())
      if (const auto found = places_.find(target->buffer.get()); found != places_.end())
        return store(found->second.buffer, {own(found->second, target->indices[0])}, rewrite(target->value),
                     rewrite(target->mask));
    return Mutator::rewrite(s);
  }

 private:
  struct Places {
    Buffer buffer;
    int64_t size = 0;  // of one, in elements
  };
  Expr own(const Places& places, const Expr& index) {
    return (Expr(loop_.var) - loop_.min) * Expr(places.size) + rewrite(index);
  }

  const ForNode& loop_;
  int64_t threads_;
  const Target& target_;
  std::unordered_map<const BufferNode*, Places> places_;
};

class Interleaver : public Mutator {
 public:
  explicit Interleaver(const Target& target) : target_(target) {}
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
  Stmt rewrite(const Stmt& s) override {
    Stmt result = Mutator::rewrite(s);  // inner threads first
    const auto* loop = result ? result.as<ForNode>() : nullptr;
    if (!loop || !is_virtual_thread(loop->thread_axis)) return result;
    const int64_t* threads = as_int(loop->extent);
    if (!threads) {
      verdict = fail(ErrorCode::E301, "the number of virtual threads of loop " + loop->var->name + " is not constant");
      return result;
    }
    return inject(*loop, *threads, Privatizer(*loop, *threads, target_).rewrite(loop->body));
  }

  Result<> verdict;

 private:
  static Stmt inject(const ForNode& threads, int64_t n, const Stmt& s) {
    const VarNode* var = threads.var.get();
    if (const auto* loop = s.as<ForNode>(); loop && !uses_var(loop->min, var) && !uses_var(loop->extent, var))
      return with(*loop, [&](ForNode& f) { f.body = inject(threads, n, loop->body); });
    if (const auto* choice = s.as<IfNode>(); choice && !uses_var(choice->condition, var) && !choice->else_body)
      return if_then(choice->condition, inject(threads, n, choice->then_body));
    if (const auto* place = s.as<AllocateNode>()) return allocate(place->buffer, inject(threads, n, place->body));
    std::vector<Stmt> stmts;
    if (const auto* list = s.as<SeqNode>()) {
      for (size_t i = 0; i < list->stmts.size();) {
        size_t end = i + 1;
        while (end < list->stmts.size() && same_unit(list->stmts[i], list->stmts[end])) ++end;
        if (end == i + 1) {
          stmts.push_back(inject(threads, n, list->stmts[i]));
        } else {
          std::vector<Stmt> group(list->stmts.begin() + static_cast<std::ptrdiff_t>(i),
                                  list->stmts.begin() + static_cast<std::ptrdiff_t>(end));
          stmts.push_back(repeat(threads, n, seq(std::move(group))));
        }
        i = end;
      }
      return seq(std::move(stmts));
    }
    return repeat(threads, n, s);
  }

  // A thread's tasks of one unit that follow one another stay together: a queue is in order, so what one thread loads
  // must not wait behind what another one, still at work, has no place for yet.
  static bool same_unit(const Stmt& a, const Stmt& b) {
    const auto *x = a.as<AsyncNode>(), *y = b.as<AsyncNode>();
    return x && y && x->queue == y->queue;
  }

  static Stmt repeat(const ForNode& threads, int64_t n, const Stmt& s) {
    const VarNode* var = threads.var.get();
    std::vector<Stmt> stmts;
    for (int64_t t = 0; t < n; ++t) {
      const Stmt copy = substitute(s, {{var, threads.min + Expr(t)}});
      stmts.push_back(t == 0 ? copy : rename_bound(copy));
    }
    return seq(std::move(stmts));
  }

  const Target& target_;
};

}  // namespace

Result<Stmt> interleave_virtual_threads(const Stmt& body, const Target& target) {
  Interleaver interleaver(target);
  Stmt result = interleaver.rewrite(body);
  FETTLE_TRY_VOID(interleaver.verdict);
  return result;
}

}  // namespace fettle
