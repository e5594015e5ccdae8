#pragma once
// How much there is to do: operations on elements, and bytes that operators read and write, over open sizes.

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace fettle {

/// A sum of products of sizes with positive factors. Unlike a Dim's, its numbers have no largest value.
class SizedCount {
 public:
  /// factor * extents[0] * extents[1] * …
  void add(double factor, const std::vector<Dim>& extents = {});
  /// `times` as much of another count.
  void add(const SizedCount& other, const Dim& times = 1);

  bool is_number() const;
  /// At typical sizes.
  double typical() const;
  /// "6000", "3072 * N + 12 * N * N"
  std::string to_string() const;
  /// For people: the terms that are largest at typical sizes, each cut where it is long, and the others' number.
  std::string summary() const;

 private:
  struct Term {
    double factor = 0;
    Dim product = 1;  // of sizes alone
    double typical() const { return factor * static_cast<double>(product.typical()); }
  };
  std::map<std::string, Term> terms_;  // by what their product is called
};

struct GraphWork {
  /// Additions, products, comparisons, functions, …, each 1 (a product that is added: 2): of elements, not of indices.
  SizedCount operations;
  /// What operators read and write, where each runs alone; views cost nothing.
  SizedCount bytes;

  void add(const GraphWork& other, const Dim& times = 1);
};

/// Of all nodes of an optimized graph, as their programs are written. A loop's body counts once an iteration, and of
/// an If that is left both bodies do. What data decide (a search that ends early) counts as if it went on to its end;
/// where nothing tells the end, once.
/// Errors: those of node_func.
Result<GraphWork> work_of(const Graph& graph);

}  // namespace fettle
