#pragma once
// Walking and rewriting trees. Override the two functions, look at the kind, and call the base for the rest.

#include "base/function_ref.h"
#include "base/pointer_map.h"
#include "ir/func.h"

namespace fettle {

/// Pre-order walk. Overrides call Visitor::visit(e) to go on below.
class Visitor {
 public:
  virtual ~Visitor() = default;
  virtual void visit(const Expr& e);
  virtual void visit(const Stmt& s);
};

/// Rewrites bottom-up, sharing what does not change. Overrides call Mutator::rewrite(e) to rewrite the children.
class Mutator {
 public:
  virtual ~Mutator() = default;
  virtual Expr rewrite(const Expr& e);
  virtual Stmt rewrite(const Stmt& s);
  /// Applied to the buffer of every access, region and allocation; the default keeps it.
  virtual Buffer rewrite(const Buffer& buffer) { return buffer; }

  Func rewrite(const Func& func);
  Region rewrite_region(const Region& region);
};

/// Calls `fn` on every expression / statement below, parents first; a false result skips the children.
void walk(const Expr& e, FunctionRef<bool(const Expr&)> fn);
void walk(const Stmt& s, FunctionRef<bool(const Stmt&)> on_stmt, FunctionRef<bool(const Expr&)> on_expr = nullptr);

using VarMap = PointerMap<const VarNode*, Expr>;
using BufferMap = PointerMap<const BufferNode*, Buffer>;

/// Replaces variables at their uses (bound variables are not renamed).
Expr substitute(const Expr& e, const VarMap& values);
Stmt substitute(const Stmt& s, const VarMap& values);
/// Replaces buffers everywhere, regions and allocations included; indices stay.
Stmt substitute_buffers(const Stmt& s, const BufferMap& buffers);
/// A copy in which every variable bound inside (loops, lets, block iterators) is new; buffers allocated inside too.
Stmt rename_bound(const Stmt& s);

bool uses_var(const Expr& e, const VarNode* var);
bool uses_var(const Stmt& s, const VarNode* var);
/// True if `e` has the value of a place in memory in it: what it is may change between two places of a program.
bool reads_memory(const Expr& e);
/// Free and bound variables that occur in `e`, in order of first use.
std::vector<Var> collect_vars(const Expr& e);

/// The block named `name`, or null.
const BlockNode* find_block(const Stmt& s, std::string_view name);
/// From the root downwards: the statements on the path to `target` (loops, blocks, sequences …), `target` last;
/// empty if it is not there.
std::vector<Stmt> path_to(const Stmt& root, const StmtNode* target);
/// The tree with the node `target` replaced (by identity); a null replacement removes it from its sequence.
Stmt replace_stmt(const Stmt& root, const StmtNode* target, const Stmt& replacement);

}  // namespace fettle
