#pragma once
// Ways from a statement up to the root, without a list of them.

#include "base/function_ref.h"
#include "ir/func.h"

namespace fettle {

/// Calls `fn` on `target` and on what encloses it, up to `root`; whether it is there.
bool walk_up(const Stmt& root, const StmtNode* target, FunctionRef<void(const Stmt&)> fn);

/// As replace_stmt on the body, for a function that is given up: nodes to which nobody else refers are changed, only
/// the others copied.
Func replace_owned(Func func, const StmtNode* target, const Stmt& replacement);

}  // namespace fettle
