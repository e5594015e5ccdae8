#pragma once
// Edits of the tree that primitives share. They find a place in it, and put an edited part back.

#include <string>
#include <string_view>
#include <vector>

#include "arith/analyzer.h"
#include "ir/visit.h"
#include "schedule/schedule.h"

namespace fettle {

/// The loops around `node` up to the innermost block that encloses it, outermost first.
std::vector<const ForNode*> loops_around(const Func& func, const StmtNode* node);
/// The innermost block that encloses `node` (not `node` itself); the root block at the outermost.
const BlockNode* enclosing_block(const Func& func, const StmtNode* node);
/// Binds the variables of the loops to their ranges.
void bind_loops(Analyzer& analyzer, const std::vector<const ForNode*>& loops);
/// The program with `target` replaced (null: removed); loops and sequences that become empty go too.
Func replace_in(const Func& func, const StmtNode* target, const Stmt& replacement);
/// Substitutes loop variables in the bindings, predicates and loop bounds below `s`, simplifying with `analyzer`.
Stmt substitute_loops(const Stmt& s, const VarMap& values, Analyzer& analyzer);
/// `base`, or base_1, base_2, … so that no block (or buffer) of `func` has the name.
std::string unique_block_name(const Func& func, std::string_view base);
std::string unique_buffer_name(const Func& func, std::string_view base);
/// The buffer with this index among the block's reads / writes. E220.
Result<Buffer> read_buffer(const BlockNode& block, int64_t index);
Result<Buffer> write_buffer(const BlockNode& block, int64_t index);
/// A failure at `place` in `func`, for the error printer to mark.
tl::unexpected<Diagnostic> fail_at(ErrorCode code, const Func& func, const StmtNode* place, std::string message,
                                   std::string where);

}  // namespace fettle
