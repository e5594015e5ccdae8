// The graph tuner: which layout each operator of a graph uses, from what choices cost.

#include <fmt/format.h>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "generations/autotvm/graph_tuner.h"

namespace fettle::python {
namespace {

using Costs = std::vector<std::vector<double>>;

LayoutProblem problem_of(const Costs& nodes, const std::vector<std::tuple<size_t, size_t, Costs>>& edges) {
  LayoutProblem problem{.nodes = nodes};
  for (const auto& [from, to, costs] : edges) problem.edges.push_back({from, to, costs});
  return problem;
}

nb::tuple choose_layouts(const Costs& nodes, const std::vector<std::tuple<size_t, size_t, Costs>>& edges,
                         const std::string& method) {
  const LayoutProblem problem = problem_of(nodes, edges);
  LayoutSolution found;
  if (method == "dynamic_programming")
    found = take(choose_layouts_by_dynamic_programming(problem));
  else if (method == "pbqp")
    found = take(choose_layouts_by_pbqp(problem));
  else
    raise(ErrorCode::E709, "methods are dynamic_programming and pbqp; not " + method);
  return nb::make_tuple(found.choices, found.cost, found.optimal);
}

}  // namespace

void bind_layouts(nb::module_& m) {
  m.def("choose_layouts", &choose_layouts, nb::arg("nodes"), nb::arg("edges"), nb::arg("method") = "pbqp",
        "AutoTVM's graph tuner. nodes: for each node, seconds of its choices; edges: (from, to, seconds of the "
        "conversion for each choice of from and of to). Returns the choices, what they cost, and whether it is known "
        "that none is cheaper. method: dynamic_programming (graphs without cycles) or pbqp (any).");
}

}  // namespace fettle::python
