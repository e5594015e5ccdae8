#pragma once
// The size table of a planned model: every number that depends on the sizes of its inputs, computed when they change.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "graph/plan/plan.h"
#include "ir/func.h"

namespace fettle {

/// Entries are i64. The first is the arena's bytes; then come the extents of all outputs, one after the other; then
/// the bytes of each stage's arena, and what the host program asked for.
class SizeTable {
 public:
  /// Of a model whose sizes are all fixed it is empty, and stays so.
  SizeTable(const Graph& graph, const Plan& plan);

  bool empty() const { return entries_.empty(); }
  const std::vector<Dim>& entries() const { return entries_; }
  /// The entry of a dim that is no number.
  int index_of(const Dim& dim);
  /// The stage from which on an entry holds its dim's value; see SizeStage. Before it, an extent of an output is the
  /// most that it can be, or -1.
  int stage_of(int entry) const { return stages_[static_cast<size_t>(entry)]; }
  bool is_late(const Dim& dim) const { return stage_of(dim) > 0; }
  /// The entry of the bytes of a stage's arena.
  int arena_of(int stage) const { return stage == 0 ? 0 : first_arena_ + stage - 1; }

  /// What an error means: the entry of a stage's arena is -1 - i where sizes break rule i.
  const std::vector<std::string>& errors() const { return errors_; }

  /// The functions that fill the table, one a stage, each its own entries; the first those of stage 0. No entry may be
  /// asked for any more. Their one buffer is the table. The integer parameters of the first are the extents of all
  /// inputs, one after the other; of another, the integers that its steps read.
  ///   resize(table: i64[5] output, x_0: i64, x_1: i64):
  ///     table[1] = x_0 …; table[0] = …; if x_0 < 0 or 1099511627776 < x_0: table[0] = -1
  std::vector<Func> programs(const std::string& name);

 private:
  void add(const Dim& dim, int stage);
  int stage_of(const Dim& dim) const;

  const Graph& graph_;
  const Plan& plan_;
  std::vector<Dim> entries_;
  std::vector<int> stages_;
  std::map<std::string, int> indices_;
  std::map<std::string, int, std::less<>> stage_of_size_;
  int first_arena_ = 0;
  std::vector<std::string> errors_;
};

}  // namespace fettle
