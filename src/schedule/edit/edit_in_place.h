#pragma once
// Ends a step in place: where nobody else holds the tree, the edited statement is replaced without copies.

#include "ir/path.h"
#include "schedule/schedule.h"

namespace fettle {

/// The program of a step that ends with replacing one statement, and can be refused no more. Where only the schedule
/// refers to its program, as while a trace is replayed, the program is changed in place. That saves the copies of all
/// statements around.
Func replace_last(const Schedule& s, const StmtNode* target, const Stmt& replacement);

}  // namespace fettle
