#pragma once
// The conditions of the derivation rules. They tell what a node of the graph of blocks is from how it reads and writes.
// (Zheng et al.: Ansor, OSDI 2020, section 4.1 and table 1.)

#include "ir/func.h"
#include "target/target.h"

namespace fettle {

/// A simple elementwise operator that can always be computed where it is read. It has one store, spatial iterators
/// only, no selection and no costly function. Every load has the iterators as indices, perhaps shifted, in their order.
///   relu, add, bias add: yes      padding (selects), transpose (another order), exp (costly), matmul (reduces): no
bool is_strict_inlinable(const Func& func, const BlockNode& block);

/// A padding: one load or a constant, by a selection, for each element.
///   P[i, j] = select(2 <= i && i < 29 && …, X[i - 2, j - 2], 0)
bool is_padding(const BlockNode& block);

/// Elements that are read are used again in other places of the output. Two of the loads each lack a spatial iterator
/// of extent > 1 (of matmul, A lacks j and B lacks i). Or one load of a reduction does (a depthwise convolution's
/// weights lack its pixels).
bool has_data_reuse(const Func& func, const BlockNode& block);

/// What it computes is read by reductions that use it again (has_data_reuse): a padding, or arithmetic on each element.
/// Where it is inlined, it is worked out again for every tile of lanes, in the innermost loop.
///   P[i, j] = E[i, j] / T[i]; Y[i, c] += P[i, j] * V[j, c]
bool is_operand_of_product(const Func& func, const BlockNode& block);
/// Strictly inlinable, no parameter, and, but on a target with threads, no operand of a product: for those it is a
/// decision. (A departure from the paper, whose rule 2 inlines them all.)
bool is_always_inlined(const Func& func, const BlockNode& block, const Target* target);

/// Exactly one block reads what `block` writes, and reads it element by element: of the same domain, without a
/// reduction of its own. Returns it, or null.
const BlockNode* fusible_consumer(const Func& func, const BlockNode& block);
inline bool has_fusible_consumer(const Func& func, const BlockNode& block) { return fusible_consumer(func, block); }

/// There is little to do at once in the spatial dimensions and much in the reduction. The output has fewer points than
/// each has terms, and fewer than 16 a core. Where nothing is used again, there are more terms than cores.
bool has_more_reduction_parallel(const Func& func, const BlockNode& block, int cores);

}  // namespace fettle
