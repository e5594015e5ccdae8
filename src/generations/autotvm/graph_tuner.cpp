#include "generations/autotvm/graph_tuner.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

namespace fettle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
using Matrix = std::vector<std::vector<double>>;

Result<> check(const LayoutProblem& problem) {
  const auto is_cost = [](double cost) { return !std::isnan(cost) && cost != -kInfinity; };
  for (size_t n = 0; n < problem.nodes.size(); ++n) {
    if (problem.nodes[n].empty()) return fail(ErrorCode::E709, fmt::format("node {} has no choices", n));
    if (!std::ranges::all_of(problem.nodes[n], is_cost))
      return fail(ErrorCode::E709, fmt::format("a cost of node {} is no number", n));
  }
  for (size_t e = 0; e < problem.edges.size(); ++e) {
    const auto& edge = problem.edges[e];
    if (edge.from >= problem.nodes.size() || edge.to >= problem.nodes.size() || edge.from == edge.to)
      return fail(ErrorCode::E709, fmt::format("edge {} does not join two nodes", e));
    bool fits = edge.costs.size() == problem.nodes[edge.from].size();
    for (const auto& row : edge.costs)
      fits &= row.size() == problem.nodes[edge.to].size() && std::ranges::all_of(row, is_cost);
    if (!fits) return fail(ErrorCode::E709, fmt::format("edge {} has not one cost for each pair of choices", e));
  }
  return {};
}

// Nodes are removed one after the other, and their choices worked out in the opposite order.
class Reducer {
 public:
  explicit Reducer(const LayoutProblem& problem) : costs_(problem.nodes), neighbours_(problem.nodes.size()) {
    for (const auto& edge : problem.edges) add(edge.from, edge.to, edge.costs);
  }

  size_t degree(size_t node) const { return neighbours_[node].size(); }

  // Into its neighbours, of which it has at most two.
  void eliminate(size_t node) {
    Removed removed{node, costs_[node], {neighbours_[node].begin(), neighbours_[node].end()}};
    detach(node);
    if (removed.edges.size() == 1) {
      const auto& [other, matrix] = removed.edges[0];
      for (size_t o = 0; o < costs_[other].size(); ++o) {
        double best = kInfinity;
        for (size_t c = 0; c < removed.costs.size(); ++c) best = std::min(best, removed.costs[c] + matrix[c][o]);
        costs_[other][o] += best;
      }
    } else if (removed.edges.size() == 2) {
      const auto& [a, to_a] = removed.edges[0];
      const auto& [b, to_b] = removed.edges[1];
      Matrix joined(costs_[a].size(), std::vector<double>(costs_[b].size(), kInfinity));
      for (size_t x = 0; x < joined.size(); ++x)
        for (size_t y = 0; y < joined[x].size(); ++y)
          for (size_t c = 0; c < removed.costs.size(); ++c)
            joined[x][y] = std::min(joined[x][y], removed.costs[c] + to_a[c][x] + to_b[c][y]);
      add(a, b, joined);
    }
    removed_.push_back(std::move(removed));
  }

  // Takes the choice that is cheapest with the best of each neighbour; its edges become costs of these.
  void decide(size_t node) {
    const auto edges = neighbours_[node];
    size_t best = 0;
    double least = kInfinity;
    for (size_t c = 0; c < costs_[node].size(); ++c) {
      double cost = costs_[node][c];
      for (const auto& [other, matrix] : edges) {
        double cheapest = kInfinity;
        for (size_t o = 0; o < costs_[other].size(); ++o)
          cheapest = std::min(cheapest, matrix[c][o] + costs_[other][o]);
        cost += cheapest;
      }
      if (cost < least) {
        least = cost;
        best = c;
      }
    }
    for (const auto& [other, matrix] : edges)
      for (size_t o = 0; o < costs_[other].size(); ++o) costs_[other][o] += matrix[best][o];
    std::vector<double> only(costs_[node].size(), kInfinity);
    only[best] = 0;
    detach(node);
    removed_.push_back({node, std::move(only), {}});
  }

  std::vector<size_t> choices() const {
    std::vector<size_t> chosen(costs_.size(), 0);
    for (auto removed = removed_.rbegin(); removed != removed_.rend(); ++removed) {
      double least = kInfinity;
      for (size_t c = 0; c < removed->costs.size(); ++c) {
        double cost = removed->costs[c];
        for (const auto& [other, matrix] : removed->edges) cost += matrix[c][chosen[other]];
        if (cost >= least) continue;
        least = cost;
        chosen[removed->node] = c;
      }
    }
    return chosen;
  }

 private:
  struct Removed {
    size_t node;
    std::vector<double> costs;
    std::vector<std::pair<size_t, Matrix>> edges;  // [own choice][the neighbour's]
  };

  void add(size_t a, size_t b, const Matrix& costs) {
    Matrix& there = neighbours_[a][b];
    Matrix& back = neighbours_[b][a];
    if (there.empty()) {
      there.assign(costs_[a].size(), std::vector<double>(costs_[b].size(), 0));
      back.assign(costs_[b].size(), std::vector<double>(costs_[a].size(), 0));
    }
    for (size_t x = 0; x < there.size(); ++x)
      for (size_t y = 0; y < back.size(); ++y) {
        there[x][y] += costs[x][y];
        back[y][x] += costs[x][y];
      }
  }
  void detach(size_t node) {
    for (const auto& [other, matrix] : neighbours_[node]) neighbours_[other].erase(node);
    neighbours_[node].clear();
  }

  std::vector<std::vector<double>> costs_;
  std::vector<std::map<size_t, Matrix>> neighbours_;
  std::vector<Removed> removed_;
};

Result<LayoutSolution> solve(const LayoutProblem& problem, size_t exact_degree, bool may_decide) {
  FETTLE_TRY_VOID(check(problem));
  Reducer reducer(problem);
  std::vector<size_t> left(problem.nodes.size());
  for (size_t n = 0; n < left.size(); ++n) left[n] = n;
  LayoutSolution solution{.optimal = true};
  while (!left.empty()) {
    const auto least = std::ranges::min_element(left, {}, [&](size_t n) { return reducer.degree(n); });
    if (reducer.degree(*least) <= exact_degree) {
      reducer.eliminate(*least);
      left.erase(least);
      continue;
    }
    if (!may_decide) return fail(ErrorCode::E709, "the graph has a cycle: choose_layouts_by_pbqp takes it");
    solution.optimal = false;
    const auto most = std::ranges::max_element(left, {}, [&](size_t n) { return reducer.degree(n); });
    reducer.decide(*most);
    left.erase(most);
  }
  solution.choices = reducer.choices();
  solution.cost = cost_of(problem, solution.choices);
  if (!(solution.cost < kInfinity))
    return fail(ErrorCode::E407, "no choice of layouts was found of which all is possible");
  return solution;
}

}  // namespace

double cost_of(const LayoutProblem& problem, const std::vector<size_t>& choices) {
  double cost = 0;
  for (size_t n = 0; n < problem.nodes.size(); ++n) cost += problem.nodes[n][choices[n]];
  for (const auto& edge : problem.edges) cost += edge.costs[choices[edge.from]][choices[edge.to]];
  return cost;
}

Result<LayoutSolution> choose_layouts_by_dynamic_programming(const LayoutProblem& problem) {
  return solve(problem, 1, false);
}

Result<LayoutSolution> choose_layouts_by_pbqp(const LayoutProblem& problem) { return solve(problem, 2, true); }

Result<LayoutProblem> layout_problem(Database& database, const std::vector<MeasuredNode>& nodes,
                                     const std::vector<MeasuredEdge>& edges) {
  const auto seconds = [&](const std::optional<TaskKey>& task) -> Result<double> {
    if (!task) return 0.0;
    FETTLE_TRY(const std::optional<Record> best, best_checked(database, *task));
    return best ? best->median_s : kInfinity;
  };
  LayoutProblem problem;
  for (const MeasuredNode& node : nodes) {
    auto& costs = problem.nodes.emplace_back();
    for (const auto& choice : node.choices) {
      FETTLE_TRY(const double cost, seconds(choice));
      costs.push_back(cost);
    }
  }
  for (const MeasuredEdge& edge : edges) {
    auto& made = problem.edges.emplace_back(LayoutProblem::Edge{edge.from, edge.to, {}});
    for (const auto& row : edge.conversions) {
      auto& costs = made.costs.emplace_back();
      for (const auto& conversion : row) {
        FETTLE_TRY(const double cost, seconds(conversion));
        costs.push_back(cost);
      }
    }
  }
  return problem;
}

}  // namespace fettle
