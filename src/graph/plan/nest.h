#pragma once
// Reads programs as te makes them: loop nests under the root, each around one block.

#include <vector>

#include "ir/func.h"

namespace fettle {

/// A block in a loop nest of its own under the root.
struct Nest {
  std::vector<const ForNode*> loops;
  const BlockNode* block = nullptr;
};

/// The statements under the root.
std::vector<Stmt> nests_of(const Func& func);
/// Null block: the statement is no perfect nest around one block.
Nest open_nest(const Stmt& stmt);
/// The nest's loops around another block.
Stmt close_nest(const Nest& nest, Stmt body);
Func with_nests(const Func& func, std::vector<Stmt> nests, std::vector<Buffer> allocations);
/// Whether loop i runs over iterator i, from 0, for every i.
bool is_plain(const Nest& nest);

/// Reads and writes as the body has them; blocks without iterators keep what they declare.
void find_regions(BlockNode& block);

}  // namespace fettle
