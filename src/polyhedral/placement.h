#pragma once
// Where blocks that are ordered together stand.

#include <string>
#include <utility>
#include <vector>

#include "ir/func.h"
#include "schedule/primitives/reschedule.h"

namespace fettle {

/// The statements that hold these blocks and no others, as a statement of its own, and where it stands: in the body, or
/// in loops around other blocks, too. For AffineNest::of.
Result<std::pair<Stmt, const StmtNode*>> place_of(const Func& func, const std::vector<std::string>& blocks);

/// A position of NestStatement::when: a number, or one of the loops, of which `inputs` are the values.
Expr value_at(const std::string& position, const std::vector<Var>& inputs);

/// `reschedule` of these blocks. `made`: their names, and those of copies of them.
Result<std::vector<LoopRef>> reschedule_with_copies(Schedule& s, const RescheduleArgs& args,
                                                    const std::vector<std::string>& blocks,
                                                    std::vector<std::string>& made);

}  // namespace fettle
