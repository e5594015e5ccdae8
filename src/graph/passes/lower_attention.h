#pragma once
// Attention and rotary embeddings as products, masks and elementwise work.

#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

/// OpDef::lower of Attention and RotaryEmbedding. Sizes may be open.
///   Attention(q, k, v)         →   softmax(mask(cap((q * scale) · kᵀ))) · v
///   RotaryEmbedding(x, c, s)   →   [x₁ * c - x₂ * s, x₁ * s + x₂ * c]
/// mask: scores of keys that a query must not see become -inf (is_causal, a mask of truth values, lengths), and a mask
///       of numbers is added. What is behind the end of a shorter mask isn't seen.
/// cap:  softcap * tanh(x / softcap)
/// Past keys and values come before the new ones. Where several heads of queries share one of keys and values, these
/// are repeated by an Expand.
/// The nodes that stand for the layer, in order; they are not typed.
/// E603 a mask of integers, values of another type · E605 inputs do not fit · E606 an attribute does not
Result<std::vector<Node*>> lower_attention_layer(Graph& graph, Node* layer);

}  // namespace fettle::passes
