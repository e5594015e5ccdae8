#pragma once
// The size table of a planned model: every number that depends on the sizes of its inputs, computed when they change.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan/plan.h"
#include "ir/func.h"

namespace fettle {

/// Entries are i64. The first is the arena's bytes; then come the extents of all outputs, one after the other; then
/// what the host program asked for.
class SizeTable {
 public:
  /// Of a model whose sizes are all fixed it is empty, and stays so.
  SizeTable(const Graph& graph, const Plan& plan);

  bool empty() const { return entries_.empty(); }
  const std::vector<Dim>& entries() const { return entries_; }
  /// The entry of a dim that is no number.
  int index_of(const Dim& dim);

  /// What an error means: entry 0 is -1 - i where sizes break rule i.
  const std::vector<std::string>& errors() const { return errors_; }

  /// The function that fills the table. Its integer parameters are the extents of all inputs, one after the other; its
  /// one buffer is the table.
  ///   resize(table: i64[5] output, x_0: i64, x_1: i64):
  ///     table[1] = x_0 …; table[0] = …; if x_0 < 0 or 1099511627776 < x_0: table[0] = -1
  Func program(const std::string& name);

 private:
  const Graph& graph_;
  const Plan& plan_;
  std::vector<Dim> entries_;
  std::map<std::string, int> indices_;
  std::vector<std::string> errors_;
};

}  // namespace fettle
