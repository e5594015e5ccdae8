#pragma once
// Decides when the parts of a loop's body may run in different iterations of a pipelined loop.

#include <vector>

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// The parts of a loop's body: the statements of its sequence, or the one statement.
std::vector<Stmt> pipeline_parts(const ForNode& loop);

/// Whether part p of iteration i may run in turn i + stages[p], in place order[p] of those of one turn, given as many
/// versions of a buffer as the stages of its accesses lie apart: iterations meet only within themselves, and a part
/// that needs another one runs after it. E227, at the block that comes too early.
Result<> check_pipeline(const Func& func, const ForNode& loop, const std::vector<int64_t>& stages,
                        const std::vector<int64_t>& order);

}  // namespace fettle
