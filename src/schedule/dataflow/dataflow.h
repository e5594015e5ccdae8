#pragma once
// Finds who writes and who reads a buffer, what a block touches, and where a statement may go so that writers stay
// before readers.

#include <string>
#include <vector>

#include "ir/func.h"
#include "schedule/edit/edit.h"

namespace fettle {

/// Blocks in `s` that no other block in `s` encloses, in program order. `s` itself is one if it is a block.
std::vector<const BlockNode*> blocks_under(const Stmt& s);
/// Blocks directly inside `scope`.
std::vector<const BlockNode*> blocks_of(const BlockNode& scope);

/// The block's region of `buffer`, or null.
const Region* read_region(const BlockNode& block, const BufferNode* buffer);
const Region* write_region(const BlockNode& block, const BufferNode* buffer);

/// Blocks of `scope` that write / read `buffer`. A block that updates it in place counts as a producer only.
std::vector<const BlockNode*> producers_of(const BlockNode& scope, const BufferNode* buffer);
std::vector<const BlockNode*> consumers_of(const BlockNode& scope, const BufferNode* buffer);

/// A block ahead of `block` that reads what it writes: what an earlier iteration of loops around both has handed on.
/// Null if there is none.
const BlockNode* reader_ahead(const BlockNode& block, const BlockNode& scope);

/// A complete block: iterators all spatial, no init, alone in writing its outputs, reads none of them, and no block
/// ahead of it does.
bool is_complete(const BlockNode& block, const BlockNode& scope);
/// A reduction block: an init, iterators spatial or reduce, alone in writing its outputs, which no block ahead of it
/// reads.
bool is_reduction(const BlockNode& block, const BlockNode& scope);
/// Why neither holds, as a phrase: "it is not alone in writing C".
std::string why_not_complete(const BlockNode& block, const BlockNode& scope, bool reduction_too);

/// True if a buffer is a parameter of the function.
bool is_param(const Func& func, const BufferNode* buffer);

/// All loads / stores of `buffer` in `s` as index tuples, in order of occurrence (init included).
std::vector<std::vector<Expr>> loads_of(const Stmt& s, const BufferNode* buffer);
std::vector<std::vector<Expr>> stores_of(const Stmt& s, const BufferNode* buffer);
/// The single store of `block` if its body is just that, or null.
const StoreNode* single_store(const BlockNode& block);

/// Whether an index is known only once memory has been read, so that a region names all of its dimension.
bool depends_on_memory(const Expr& index);

/// The hull of two ranges of a dimension with extent `whole`: exact where they differ by constants, else all of it.
Range hull_of(const Range& a, const Range& b, const Expr& whole, Analyzer& analyzer);

/// Regions worked out anew from the accesses of a block without inner blocks: for each buffer the hull of its
/// accesses (hull_of). Reads come in order of first load,
/// but for buffers that were there before, which keep their order. What the block itself writes counts as read only
/// if it was listed so before, or if it is read elsewhere than where it is written.
void infer_regions(BlockNode& block, Analyzer& analyzer);
/// True where `block` is part of the init of `scope`: a tile that blockize made clears by blocks of their own.
bool is_in_init(const BlockNode& scope, const BlockNode* block);
/// Takes away the regions of buffers that the block reads no more: loads that were simplified away, or moved.
void drop_unread(BlockNode& block);

/// Makes `init` do what the init of `block` does. Its iterators are replaced as `iters` say, and its regions follow.
/// Where blockize made the block, whose init has blocks of its own, the regions are those that the block states.
void init_regions(BlockNode& init, const BlockNode& block, const VarMap& iters);

/// A block under `s` that writes what the init of `block` reads, or null: the init may not leave `s`, upwards.
const BlockNode* makes_for_init(const Stmt& s, const BlockNode& block);

/// The statement directly below the innermost sequence (or loop body) that `block` shares with any of `others`,
/// on the way to `block`. Without others: the child of the enclosing block's body. Putting something before or after
/// it puts that before or after `block`, on the same side of all `others`.
const StmtNode* anchor_of(const BlockNode& scope, const BlockNode* block, const std::vector<const BlockNode*>& others);

/// The function with statements put around `anchor`, and buffers allocated in / removed from the block `scope`; what
/// clears the pad lanes of a buffer that is removed goes with it.
struct ScopeEdit {
  const StmtNode* anchor = nullptr;
  Stmt before, replacement, after;  // replacement null: the anchor stays as it is
  std::vector<Buffer> allocate;
  std::vector<const BufferNode*> release;
};
Func edit_scope(const Func& func, const std::string& scope, const ScopeEdit& edit);

/// The loops from `top` (itself included, if it is a loop) down to `node`, outermost first.
std::vector<const ForNode*> loops_between(const Stmt& top, const StmtNode* node);

/// E219 unless the scope is one that every target has, or that the schedule's target declares.
Result<> check_scope(const Schedule& schedule, const std::string& memory_scope, const BlockNode* block);

/// Conjuncts of a condition; none for null or true.
std::vector<Expr> conjuncts(const Expr& condition);

}  // namespace fettle
