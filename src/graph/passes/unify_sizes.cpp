#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/late_sizes.h"
#include "graph/passes/passes.h"

namespace fettle::passes {
namespace {

using Replacement = std::map<std::string, Dim, std::less<>>;

Dim replaced(const Dim& dim, const Replacement& by) {
  return dim.substitute([&](std::string_view size) {
    const auto found = by.find(size);
    return found == by.end() ? std::nullopt : std::optional<Dim>(found->second);
  });
}

void replace_in(std::vector<Dim>& dims, const Replacement& by) {
  for (Dim& dim : dims) dim = replaced(dim, by);
}

void replace_in(Graph& graph, const Replacement& by) {
  const auto in_value = [&](Value* value) {
    if (value->type) replace_in(value->type->shape, by);
    if (value->content) replace_in(*value->content, by);
  };
  for (Value* input : graph.inputs()) in_value(input);
  for (Node* node : graph.nodes()) {
    for (auto& [name, attr] : node->attrs.entries)
      if (auto* dims = std::get_if<std::vector<Dim>>(&attr)) {
        replace_in(*dims, by);
        attr = dims_attr(*dims);
      }
    for (Value* output : node->outputs) in_value(output);
  }
}

/// The symbols of a form that is their difference.
struct Difference {
  Dim plus, minus;
};
std::optional<Difference> difference(const Dim& value) {
  const std::vector<DimTerm> terms = value.terms();
  if (terms.size() != 2 || value.constant() != 0 || terms[0].factors.size() != 1 || terms[1].factors.size() != 1)
    return std::nullopt;
  const std::pair coefficients(terms[0].coefficient, terms[1].coefficient);
  if (coefficients != std::pair<int64_t, int64_t>(1, -1) && coefficients != std::pair<int64_t, int64_t>(-1, 1))
    return std::nullopt;
  const bool in_order = terms[0].coefficient == 1;
  return Difference{terms[in_order ? 0 : 1].factors[0].whole, terms[in_order ? 1 : 0].factors[0].whole};
}

/// N = min(c, N): then N is at most c.
std::optional<int64_t> limit_of(const Dim& size, const Dim& other) {
  const std::vector<DimTerm> terms = other.terms();
  if (terms.size() != 1 || terms[0].factors.size() != 1) return std::nullopt;
  const DimFactor& factor = terms[0].factors[0];
  if (factor.kind != DimFactor::Kind::kMin) return std::nullopt;
  if (factor.a == size && factor.b.is_number()) return factor.b.value();
  if (factor.b == size && factor.a.is_number()) return factor.a.value();
  return std::nullopt;
}

/// N - 3 = 0: then N is 3.
std::optional<Replacement> only_value(const Dim& value) {
  const std::vector<DimTerm> terms = value.terms();
  if (terms.size() != 1 || terms[0].factors.size() != 1 || std::abs(terms[0].coefficient) != 1) return std::nullopt;
  const Dim& size = terms[0].factors[0].whole;
  const int64_t number = -value.constant() * terms[0].coefficient;
  if (size.symbol_name().empty() || !may_equal(size, number)) return std::nullopt;
  return Replacement{{std::string(size.symbol_name()), Dim(number)}};
}

using Names = std::set<std::string, std::less<>>;

/// The sizes that nodes define while the model runs, in all its graphs.
Names late_sizes(const Graph& graph) {
  Names late;
  for_each_graph(graph, [&](const Graph& g) {
    for (const Node* node : g.nodes()) {
      for (const Dim& size : defined_sizes(*node)) late.emplace(size.symbol_name());
      for (size_t i = 0; i < node->bodies.size(); ++i)
        for (const std::string& size : sizes_of_body(*node, i)) late.insert(size);
    }
  });
  return late;
}

/// What one rule says of sizes; nothing where it is not of a simple form. Late sizes stay what they are: who reads one
/// comes after the node that defines it.
std::optional<Replacement> solution(const SizeCheck& check, const Names& late) {
  if (check.is_zero)
    if (auto number = only_value(check.value)) return number;
  const auto form = check.is_zero ? difference(check.value) : std::nullopt;
  if (!form) return std::nullopt;
  const bool is_plus = !form->plus.symbol_name().empty(), is_minus = !form->minus.symbol_name().empty();
  if (is_plus && is_minus) {
    const Dim &a = form->plus, &b = form->minus;
    if (late.contains(a.symbol_name()) || late.contains(b.symbol_name())) return std::nullopt;
    const int64_t divisor = std::lcm(a.divisor(), b.divisor()), least = std::max(a.min(), b.min());
    const int64_t most = std::min(a.max(), b.max());
    if (least > most) return std::nullopt;
    const bool first = a.symbol_name() < b.symbol_name();
    const Dim one = Dim::symbol(std::string((first ? a : b).symbol_name()), least, most, divisor,
                                std::min(a.typical(), b.typical()));
    return Replacement{{std::string(a.symbol_name()), one}, {std::string(b.symbol_name()), one}};
  }
  for (const auto& [size, other] : {std::pair(form->plus, form->minus), std::pair(form->minus, form->plus)}) {
    if (size.symbol_name().empty()) continue;
    const auto limit = limit_of(size, other);
    if (!limit || *limit < size.min() || *limit >= size.max()) continue;
    const std::string name(size.symbol_name());
    return Replacement{{name, Dim::symbol(name, size.min(), *limit, size.divisor(), size.typical())}};
  }
  return std::nullopt;
}

/// What rules have told of sizes: each is a number or a size, which may be itself within closer bounds.
class Told {
 public:
  void add(const Replacement& by) {
    for (const auto& [size, dim] : by) by_.insert_or_assign(size, dim);
  }

  Dim in(const Dim& dim) {
    return dim.substitute([&](std::string_view size) { return of(size); });
  }

  /// All of it, each size told at once.
  Replacement all() {
    Replacement all;
    for (const auto& [size, dim] : by_) all.emplace(size, *of(size));
    return all;
  }

 private:
  std::optional<Dim> of(std::string_view size) {
    const auto first = by_.find(size);
    if (first == by_.end()) return std::nullopt;
    std::vector<Replacement::iterator> way{first};
    for (;;) {
      const std::string_view next = way.back()->second.symbol_name();
      if (next.empty() || next == way.back()->first) break;
      const auto found = by_.find(next);
      if (found == by_.end()) break;
      way.push_back(found);
    }
    const Dim last = way.back()->second;
    for (const auto& step : way) step->second = last;
    return last;
  }

  Replacement by_;
};

}  // namespace

Result<> unify_sizes(Graph& graph, const PassContext&) {
  const Names late = late_sizes(graph);
  Told told;
  bool any = false;
  for (bool changed = true; changed;) {
    changed = false;
    for (SizeCheck check : graph.size_checks()) {
      check.value = told.in(check.value);
      const auto by = solution(check, late);
      if (!by) continue;
      told.add(*by);
      any = changed = true;
    }
  }
  if (!any) return {};
  const Replacement by = told.all();
  for_each_graph(graph, [&](Graph& g) { replace_in(g, by); });
  graph.replace_sizes([&](const Dim& dim) { return replaced(dim, by); });
  return {};
}

}  // namespace fettle::passes
