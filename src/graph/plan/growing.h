#pragma once
// What grows while a loop runs: its memory is made larger by halves, and keeps what it holds.

#include <optional>
#include <vector>

#include "graph/graph.h"

namespace fettle {

/// Memory as large as has come together so far.
struct Growing {
  Dim extent;  // a size of the plan's own: that of the axis which grows, as far as it has come
  Dim bytes;   // of all of it
};

/// Rows that iterations stack, where only the loop's end tells how many there are. `extent` is less one: the row's
/// number. Nothing for other outputs.
std::optional<Growing> growing_rows(const Node& loop, const Value& output);

/// A carried value behind which each iteration puts something along its outermost axis:
///   v' = concat(v, a)      v' = concat(concat(v, a), b)
struct Appended {
  Growing memory;
  size_t axis;
  std::vector<const Node*> concats;  // which then move nothing that was there
  struct Part {
    const Value* value;
    const Node* concat;  // that puts it there
  };
  std::vector<Part> parts;  // in order
};
/// Of carried value i; nothing where it is no such value, or where its extents are not the loop's own sizes.
std::optional<Appended> appended_value(const Node& loop, int i);

}  // namespace fettle
