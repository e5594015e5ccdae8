#pragma once
// Rows that the iterations of a loop read one after the other: windows, which move with them.

#include <optional>

#include "graph/graph.h"
#include "graph/view.h"

namespace fettle {

/// The loop that a body is of.
struct Iterations {
  const Value* number = nullptr;  // the body's input that counts them; null: of no loop, or not known
  Dim limit = 0;                  // so many at most
};

/// Where each iteration finds its row.
struct RowView {
  View first;      // of the first iteration
  Dim step_elems;  // from there to that of the next; may be negative
};

/// Gather(whole, i) or Gather(whole, rows - 1 - i) along any axis, where there is a row for each iteration.
bool is_row(const Node& node, const Iterations& iterations);
/// The output of such a node as a window of `whole`, its input 0.
RowView row_view(const Node& node, const View& whole);
/// Whether a node only says where such rows are.
bool only_places_rows(const Node& node, const Iterations& iterations);

}  // namespace fettle
