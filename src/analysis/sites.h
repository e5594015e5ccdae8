#pragma once
// Blocks in their places: the loops around each, and what it touches seen from one of them.

#include <optional>
#include <string_view>
#include <vector>

#include "arith/region.h"
#include "ir/func.h"
#include "ir/query.h"

namespace fettle {

/// A block below the root, with the loops between the block around it (its parent) and itself.
struct BlockSite {
  const BlockNode* block = nullptr;
  int parent = -1;                    // index in the list of sites; -1: the root block
  std::vector<const ForNode*> loops;  // outermost first
  Expr condition;                     // of if statements in between; null: none

  /// Index of `loop` in `loops`, or -1.
  int depth_of(const ForNode* loop) const;
};

}  // namespace fettle

FETTLE_VECTORS_FROM_POOL(fettle::BlockSite);

namespace fettle {

/// All blocks but the root, in program order; a block comes before those inside it.
std::vector<BlockSite> block_sites(const Func& func);
/// The site of the block named `name`, or null.
const BlockSite* find_site(const std::vector<BlockSite>& sites, std::string_view name);
/// Whether some iterator's instances have an order that its kind tells (a scan's, an opaque one's).
bool keeps_order(const BlockNode& block);
/// "block NAME", for messages.
std::string name_of(const BlockSite& site);

/// Domains of loops[first], loops[first + 1], …
std::vector<VarDomain> loop_domains(const BlockSite& site, size_t first = 0);
/// The loop variables of the site and of the blocks around it, and these blocks' iterators, bound to their ranges.
void bind_site(const std::vector<BlockSite>& sites, const BlockSite& site, Analyzer& analyzer);
/// An analyzer that knows the integer parameters, and all that bind_site binds.
Analyzer analyzer_at(const Func& func, const std::vector<BlockSite>& sites, const BlockSite& site);
/// One that knows the integer parameters and the ranges of the block's iterators.
Analyzer analyzer_in(const Func& func, const BlockNode& block);
/// The site's predicate and condition together; null: none.
Expr instance_condition(const BlockSite& site);
/// The block's bindings in place of its iterators.
VarMap binding_map(const BlockNode& block);

/// Bindings and extents of the block's iterators, or of its spatial ones alone.
struct IterLists {
  std::vector<Expr> bindings, extents;
};
IterLists iter_lists(const BlockNode& block, bool spatial_only = false);

/// The part of `region` (one of the block's reads or writes) that is touched while loops[first] and those inside it
/// run, in terms of the loops outside. `analyzer` has the site bound. Nothing if it has no bounds.
std::optional<std::vector<Range>> region_at(const BlockSite& site, const Region& region, size_t first,
                                            Analyzer& analyzer);

}  // namespace fettle
