#include "graph/plan/size_classes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "graph/plan/nest.h"
#include "ir/compare.h"

namespace fettle {
namespace {

/// Values of all sizes that have classes, by their names.
using Point = std::map<std::string, int64_t, std::less<>>;

/// A point for each value of each size: the others are at their last.
std::vector<Point> points_of(const Graph& graph) {
  Point last;
  for (const SizeClasses& classes : graph.size_classes())
    last[std::string(classes.size.symbol_name())] = classes.points.back();
  std::vector<Point> points;
  for (const SizeClasses& classes : graph.size_classes())
    for (const int64_t value : classes.points) {
      points.push_back(last);
      points.back()[std::string(classes.size.symbol_name())] = value;
    }
  return points;
}

int64_t at_point(const Dim& dim, const Point& point) {
  return dim
      .substitute([&](std::string_view size) -> std::optional<Dim> {
        const auto found = point.find(size);
        return found == point.end() ? std::nullopt : std::optional<Dim>(found->second);
      })
      .typical();
}

bool reduces(const Func& func) {
  return std::ranges::any_of(nests_of(func), [](const Stmt& nest) {
    return std::ranges::any_of(open_nest(nest).block->iters,
                               [](const IterVar& iter) { return iter.kind == IterKind::kReduce; });
  });
}

int64_t between(int64_t a, int64_t b) {
  return std::clamp(static_cast<int64_t>(std::sqrt(static_cast<double>(a) * static_cast<double>(b))), a, b - 1);
}

}  // namespace

Result<> add_size_classes(Plan& plan, const Graph& graph) {
  constexpr size_t kMost = 8;
  if (graph.size_classes().empty()) return {};
  const std::vector<Point> points = points_of(graph);
  for (size_t w = 0; w < plan.workloads.size(); ++w) {
    PlannedWorkload& workload = plan.workloads[w];
    const Func& func = workload.func;
    if (!reduces(func)) continue;
    // Of each parameter, its value at each point, with what the others then are.
    std::vector<std::map<int64_t, std::vector<int64_t>>> values(func->int_params.size());
    for (const PlannedCall& call : plan.calls) {
      if (call.workload != static_cast<int>(w)) continue;
      for (const Point& point : points) {
        std::vector<int64_t> all;
        for (const Dim& size : call.sizes) all.push_back(at_point(size, point));
        for (size_t k = 0; k < all.size(); ++k) values[k].emplace(all[k], all);
      }
    }
    const auto by_count = [](const auto& a, const auto& b) { return a.size() < b.size(); };
    const auto decides = std::ranges::max_element(values, by_count);
    if (decides == values.end() || decides->size() < 2) continue;
    if (decides->size() > kMost)
      return fail(ErrorCode::E709,
                  fmt::format("{} has {} classes of sizes, more than {}", func->name, decides->size(), kMost));
    const auto param = static_cast<size_t>(decides - values.begin());
    int64_t least = func->int_params[param].min;
    for (auto next = decides->begin(); std::next(next) != decides->end(); ++next) {
      const int64_t multiple = func->int_params[param].multiple_of;
      const int64_t most = between(next->first, std::next(next)->first) / multiple * multiple;
      if (most < least || most >= func->int_params[param].max) continue;
      SizeClass made{.func = {}, .hash = {}, .param = static_cast<int>(param), .most = most};
      made.func = with(func, [&](FuncNode& f) {
        for (size_t k = 0; k < f.int_params.size(); ++k) f.int_params[k].typical = next->second[k];
        f.int_params[param].min = least;
        f.int_params[param].max = most;
      });
      made.hash = canonical_hash(made.func);
      workload.classes.push_back(std::move(made));
      least = most + multiple;
    }
    workload.func = with(func, [&](FuncNode& f) {
      for (size_t k = 0; k < f.int_params.size(); ++k) f.int_params[k].typical = decides->rbegin()->second[k];
    });
  }
  return {};
}

}  // namespace fettle
