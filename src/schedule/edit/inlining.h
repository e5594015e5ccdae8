#pragma once
// Replaces loads by the values that were stored. compute_inline and reverse_compute_inline share it.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "analysis/sites.h"
#include "ir/func.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// Why the block is not a single, unmasked, unconditional store by a complete block, as a phrase; empty where it is
/// one. Scan iterators are allowed where `carried` is set.
std::string why_not_inlinable(const Func& func, const BlockNode& block, const BlockNode& scope, bool carried);

/// E214: the block is not to be inlined.
tl::unexpected<Diagnostic> not_inlinable(const Func& func, const BlockNode* block, const std::string& why);
/// Whether the block has a scope, fills no circular buffer, and is such a store (why_not_inlinable). E214, or
/// check_not_rolling's
Result<> check_inlinable(const Func& func, const BlockNode* block, const BlockNode* scope);

/// The values of `iters` for which `pattern`, an index tuple in them, equals `target`: by structure, or else by
/// inverting `pattern` as an index map (which then must not pad).
std::optional<VarMap> solve(const std::vector<IterVar>& iters, const std::vector<Expr>& pattern,
                            const std::vector<Expr>& target, Analyzer& analyzer);

/// True if what `solved` gives the block's iterators, over all instances of the producer, is all of their domain, once.
bool one_to_one(const BlockNode& block, const BlockNode& producer, const VarMap& solved, Analyzer& analyzer);

/// Checks that whatever else the block reads is ready where the producer runs: a loop that the other writer shares with
/// the producer must be around the block, too. E227.
Result<> check_others_ready(const Func& func, const BlockNode& scope, const BlockNode* block,
                            const BlockNode* producer);

/// `e` (or `s`) with every load of `buffer` replaced by what `value` gives for its indices.
using LoadValue = std::function<Expr(const std::vector<Expr>& indices)>;
Expr replace_loads(const Expr& e, const BufferNode* buffer, const LoadValue& value);
Stmt replace_loads(const Stmt& s, const BufferNode* buffer, const LoadValue& value);

/// True where an address of `buffer` is taken in `s`.
bool takes_address(const Stmt& s, const BufferNode* buffer);

}  // namespace fettle
