#pragma once
// The graph tuner chooses the layout of each operator of a graph. Operators and the conversions between them then take
// the least time together. (Liu, Wang, Yu, Sharma, Wang: Optimizing CNN Model Inference on CPUs, USENIX ATC 2019,
// section 3.3.)

#include <cstddef>
#include <optional>
#include <vector>

#include "database/database.h"

namespace fettle {

/// Nodes with a few choices each, and what choices cost: alone, and in pairs. Seconds; infinity where a choice is
/// impossible.
struct LayoutProblem {
  struct Edge {
    size_t from = 0, to = 0;                 // nodes
    std::vector<std::vector<double>> costs;  // [choice of from][choice of to]: of the conversion
  };
  std::vector<std::vector<double>> nodes;  // [node][choice]
  std::vector<Edge> edges;
};

struct LayoutSolution {
  std::vector<size_t> choices;  // one a node
  double cost = 0;
  bool optimal = false;  // it is known that none is cheaper
};

/// The sum of what the choices cost.
double cost_of(const LayoutProblem& problem, const std::vector<size_t>& choices);

/// The best solution of a graph without cycles (edges between the same nodes count as one), by dynamic programming from
/// the leaves. Errors: E709 a cycle, a node without choices, costs of another size, or a number that is none · E407
/// every solution costs infinitely much
Result<LayoutSolution> choose_layouts_by_dynamic_programming(const LayoutProblem& problem);

/// Of any graph, as a partitioned boolean quadratic problem: nodes of at most two neighbours are removed, their costs
/// passed on to these, which loses nothing; where all have more, one of the most neighbours takes its cheapest choice.
/// (Hames, Scholz: Nearly Optimal Register Allocation with PBQP, 2006.) Errors: as above, but for cycles
Result<LayoutSolution> choose_layouts_by_pbqp(const LayoutProblem& problem);

/// A node or a conversion by its measured tasks: one a choice; none where there is nothing to do.
struct MeasuredNode {
  std::vector<std::optional<TaskKey>> choices;
};
struct MeasuredEdge {
  size_t from = 0, to = 0;
  std::vector<std::vector<std::optional<TaskKey>>> conversions;  // [choice of from][choice of to]
};
/// What records say that they cost: the median of the fastest whose results are right; infinity without one. E502, E503
Result<LayoutProblem> layout_problem(Database& database, const std::vector<MeasuredNode>& nodes,
                                     const std::vector<MeasuredEdge>& edges);

}  // namespace fettle
