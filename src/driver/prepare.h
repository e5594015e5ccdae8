#pragma once
// From an imported graph to the graph that is planned.

#include "driver/load.h"

namespace fettle {

/// What load_model does after importing.
Result<> prepare_graph(Graph& graph, const InputShapes& shapes, const OpenSizes& sizes, const ModelStates& states,
                       const GraphObserver& after, const PassNames& without, const Limits& limits);

}  // namespace fettle
