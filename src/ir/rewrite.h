#pragma once
// What many passes begin with: all accesses and the loops around them, and rewrites of nodes of one kind.

#include <optional>

#include "base/function_ref.h"
#include "base/small_vector.h"
#include "ir/query.h"  // IWYU pragma: export
#include "ir/visit.h"  // IWYU pragma: export

namespace fettle {

/// Who is given an address may read and write there.
enum class AccessKind : uint8_t { kRead, kWrite, kAddress };

/// Calls `fn(buffer, indices, kind)` for every access below: a store before what its value and its indices read.
using AccessFn = FunctionRef<void(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind)>;
void each_access(const Expr& e, AccessFn fn);
void each_access(const Stmt& s, AccessFn fn);

/// A walk that knows the loops around each access, outermost first. Overrides of `visit` call AccessVisitor::visit(s).
class AccessVisitor : public Visitor {
 public:
  using Visitor::visit;
  void visit(const Stmt& s) override;
  void visit(const Expr& e) override;

 protected:
  virtual void access(const Buffer& buffer, const std::vector<Expr>& indices, AccessKind kind) = 0;
  SmallVector<const ForNode*, 16> loops_;
};

/// Rewrites statements alone: expressions stay as they are.
class StmtMutator : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override { return e; }
};

/// Where accesses move to. The indices are as they were, or rewritten by hand.
struct Moved {
  Buffer buffer;
  std::vector<Expr> indices;
};
/// Rewrites accesses of some buffers; masks and values below are rewritten, too. `moved` is nothing for the others.
class AccessMutator : public Mutator {
 public:
  using Mutator::rewrite;
  Expr rewrite(const Expr& e) override;
  Stmt rewrite(const Stmt& s) override;

 protected:
  virtual std::optional<Moved> moved(const Buffer& buffer, const std::vector<Expr>& indices) = 0;
};

/// Each statement of one kind, innermost first, as `fn` has it; null: as it is.
///   rewrite_each<ForNode>(body, [](const ForNode& loop) { return loop.extent … ? loop.body : Stmt(); })
template <class Node, class Fn>
Stmt rewrite_each(const Stmt& s, Fn fn) {
  class Rewriter : public StmtMutator {
   public:
    explicit Rewriter(Fn& fn) : fn_(fn) {}
    using StmtMutator::rewrite;
    Stmt rewrite(const Stmt& s) override {
      Stmt result = Mutator::rewrite(s);
      const auto* node = result.as<Node>();
      Stmt other = node ? fn_(*node) : Stmt();
      return other ? other : result;
    }

   private:
    Fn& fn_;
  };
  return Rewriter(fn).rewrite(s);
}

inline Func with_body(const Func& func, Stmt body) {
  return body == func->body ? func : with(func, [&](FuncNode& f) { f.body = std::move(body); });
}
inline Stmt with_body(const ForNode& loop, Stmt body) {
  return with(loop, [&](ForNode& f) { f.body = std::move(body); });
}

/// The statements of a sequence, in order; another statement by itself.
std::vector<Stmt> parts_of(const Stmt& s);

/// Allocations around a statement, the first of them outermost.
Stmt allocate_all(const std::vector<Buffer>& buffers, Stmt body);

/// Whether something below accesses the buffer in one of these ways.
bool accesses(const Stmt& s, const BufferNode* buffer,
              std::initializer_list<AccessKind> kinds = {AccessKind::kRead, AccessKind::kWrite, AccessKind::kAddress});

/// The call that a statement makes for its effect, or null.
const CallNode* effect_of(const Stmt& s);

}  // namespace fettle
