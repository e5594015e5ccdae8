#pragma once
// What loops read of a tensor's content from before them.

#include <optional>
#include <string>
#include <vector>

#include "frontend/comprehension/statement.h"

namespace fettle::comprehension {

/// The elements of a tensor at one edge of a dim.
struct Edge {
  size_t dim = 0;
  bool is_upper = false;
  bool operator==(const Edge&) const = default;
};

/// Of loops around one statement that sets each element of its tensor once, and reads of the tensor what it has set
/// before: the edges where an index that would leave the tensor is held, for there it may read more.
///   for j in 0:H { P(i, j) = I(i, j) + (j > 0 ? P(i, j - 1) : 0.0) }   →   P(i, 0)
/// Nothing where all of the content may be read, or stays. `loops`: all of them, outermost first.
std::optional<std::vector<Edge>> edges_read_before_set(const Statement& made, const std::vector<std::string>& loops,
                                                       const TensorInfo& tensor);

}  // namespace fettle::comprehension
