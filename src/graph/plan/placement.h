#pragma once
// Placement makes values where they are used: in their part of a concatenation, or in the order of a later reshape.

#include <functional>
#include <unordered_map>
#include <vector>

#include "graph/plan/partition.h"
#include "graph/view.h"

namespace fettle {

struct Placement {
  /// Memory that is needed: each for this value, which fills it.
  std::vector<const Value*> wholes;
  /// Where outputs of groups are made; View::storage is an index into `wholes`.
  std::unordered_map<const Value*, View> places;
};

/// Decides places, given where each value would lie without them (`views`; storages do not matter).
///
///   concat(conv(x), conv(y))          each convolution writes its channels of the result; others are copied there
///   reshape(transpose(softmax @ v))   the product writes its rows where the reshape has them, which is then a view
///   output = transpose(conv(x))       the convolution writes the model's output
///   concat(loop₁, reverse(loop₂))     each iteration writes its row, from the last to the first where it is reversed
///
/// The second and third are done only where the product has no other use and its innermost dimension stays innermost:
/// a copy costs less than scattered stores.
///
/// may_lie_in(part, whole, place): the memory of `whole` is there when `part` is made, and it is known where in it
/// `place` begins.
using MayLieIn = std::function<bool(const Value& part, const Value& whole, const View& place)>;
Placement place_values(
    const Graph& graph, const std::vector<Group>& groups, const std::unordered_map<const Value*, View>& views,
    const MayLieIn& may_lie_in = [](const Value&, const Value&, const View&) { return true; });

/// Of a concatenation: where input `i` begins, as a view of the result's memory.
View part_of(const Node& concat, size_t i, const View& whole);

}  // namespace fettle
