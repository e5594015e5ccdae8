#pragma once
// Recurrent layers as Loops.

#include <vector>

#include "graph/graph.h"

namespace fettle::passes {

/// RNN, GRU, LSTM. Each direction becomes the product of all steps' inputs, then a Loop over the steps, which carries
/// the states:
///   RNN(x, W, R, B) → p = x · Wᵀ + (Wb + Rb);  Loop(steps, , h₀, p, Rᵀ) {i, _, h, p, Rᵀ → h' = f(p[i] + h · Rᵀ); h'}
/// The gates of a step are slices of one product, in ONNX's order. (The hidden gate of a GRU without
/// linear_before_reset has a product of its own: it begins from r ⊙ h.) A reverse direction reads the steps from the
/// last one on. Beyond a sequence's length its states stay and its Y is zero.
/// `clip` bounds what gates' activations are given, and not the cell state before h(C), as ONNX Runtime has it.
/// Quantised weights (DynamicQuantizeLSTM of com.microsoft) are multiplied as integers: what they multiply is quantised
/// by its own extremes, each step anew.
/// activation_alpha and activation_beta have one value for each activation that takes one, in their order.
/// The nodes that stand for the layer, in order; they are not typed.
/// E604 a size of the weights is not known · E605 an input's type or a length does not fit · E606 an attribute does not
Result<std::vector<Node*>> lower_recurrent(Graph& graph, Node* layer);

}  // namespace fettle::passes
