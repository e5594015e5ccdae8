#pragma once
// Equality and hashes.

#include "base/hash.h"
#include "ir/func.h"

namespace fettle {

/// Equal trees, where free variables and buffers must be identical.
bool structural_equal(const Expr& a, const Expr& b);
/// As above; variables and buffers bound inside may differ in identity and name.
bool structural_equal(const Stmt& a, const Stmt& b);
/// Equal up to renaming of everything bound inside: parameters, variables, buffers, blocks.
bool structural_equal(const Func& a, const Func& b);

/// The cheap hash, equal for structurally equal expressions; cached in the node.
uint64_t structural_hash(const Expr& e);
/// The canonical hash: equal for Funcs that are equal under renaming, stable across runs and machines.
Digest canonical_hash(const Func& func);

struct ExprHash {
  size_t operator()(const Expr& e) const { return structural_hash(e); }
};
struct ExprEqual {
  bool operator()(const Expr& a, const Expr& b) const { return structural_equal(a, b); }
};

}  // namespace fettle
