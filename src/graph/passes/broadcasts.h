#pragma once
// Elementwise work broadcasts what it reads itself.

#include "graph/passes/pattern.h"

namespace fettle::passes {

/// Whether the root is elementwise and reads what an Expand has repeated.
bool reads_repeated(const Match& m);
/// It reads what was repeated as it was, or is repeated in its inputs' place.
///   add([64, 8], expand([8]))   →   add([64, 8], [8])      exp(expand([8]))   →   expand(exp([8]))
bool before_expand(Graph& graph, const Match& m);

/// Whether an Expand repeats one element for elementwise work alone, which will read it as it is.
bool is_repeated_for_elements(const Graph& graph, const Node& expand);

}  // namespace fettle::passes
