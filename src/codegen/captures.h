#pragma once
// Finds what the body of a parallel loop uses of the function around it, since the body becomes a function of its own.

#include "base/function_ref.h"
#include "ir/stmt.h"

namespace fettle {

/// Visits each buffer whose elements or address the body uses, and each variable, in the order in which they occur, as
/// often as they do. What the body itself binds or allocates is visited, too.
void visit_captures(const Stmt& body, FunctionRef<void(const BufferNode*)> visit_buffer,
                    FunctionRef<void(const VarNode*)> visit_var);

}  // namespace fettle
