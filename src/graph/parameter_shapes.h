#pragma once
// What a parameter's shape must be: elements that it does not have would be read.

#include <fmt/format.h>

#include "graph/op_util.h"

namespace fettle::ops {

/// Input i, which may be missing, broadcasts to `shape`, which it leaves as it is. E605.
inline Result<> check_broadcasts_to(const Node& node, const Shape& shape, size_t i) {
  if (!has_input(node, i)) return {};
  const Shape& own = shape_of(node, i);
  if (own.size() > shape.size())
    return bad_types(
        node, fmt::format("input {} is {}, which does not broadcast to {}", i, to_string(own), to_string(shape)));
  for (size_t d = 0; d < own.size(); ++d)
    if (!(own[d] == Dim(1)))
      FETTLE_TRY_VOID(common_dim(node, shape[shape.size() - own.size() + d], own[d],
                                 fmt::format("input {}, which broadcasts to {}", i, to_string(shape))));
  return {};
}

/// Input i, which may be missing, has one element. E605.
inline Result<> check_one_number(const Node& node, size_t i) {
  if (!has_input(node, i)) return {};
  for (const Dim& dim : shape_of(node, i))
    FETTLE_TRY_VOID(common_dim(node, dim, Dim(1), fmt::format("input {}, which is one number", i)));
  return {};
}

}  // namespace fettle::ops
