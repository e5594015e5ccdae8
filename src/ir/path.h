#pragma once
// Ways from a statement up to the root, without a list of them.

#include "base/function_ref.h"
#include "ir/stmt.h"

namespace fettle {

/// Calls `fn` on `target` and on what encloses it, up to `root`; whether it is there.
bool walk_up(const Stmt& root, const StmtNode* target, FunctionRef<void(const Stmt&)> fn);

}  // namespace fettle
