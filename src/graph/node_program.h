#pragma once
// The program of one node, with what its integer parameters are.

#include "graph/graph.h"
#include "graph/size_vars.h"

namespace fettle {

/// node_func (op.h), and the dims that are its integer parameters. Errors: those of node_func.
Result<SizedFunc> sized_node_func(const Node& node);

}  // namespace fettle
