#pragma once
// Decides when the parts of a loop's body may run in different iterations of a pipelined loop.

#include <vector>

#include "base/result.h"
#include "ir/func.h"

namespace fettle {

/// The parts of a loop's body: the statements of its sequence, or the one statement.
std::vector<Stmt> pipeline_parts(const ForNode& loop);

/// Whether part p of iteration i may run in iteration i + stages[p] of the pipeline, in place order[p] of its parts. A
/// buffer has as many versions as the stages of its accesses lie apart. Then iterations of the loop share no data, but
/// for what parts of one stage alone access, in their order; and a part that needs another one runs after it. E227, at
/// the block that comes too early.
Result<> check_pipeline(const Func& func, const ForNode& loop, const std::vector<int64_t>& stages,
                        const std::vector<int64_t>& order);

}  // namespace fettle
