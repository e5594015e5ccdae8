#pragma once
// KnownPoints remembers which decision of a space follows which. A point that was made before is then found without
// being made again.

#include <map>
#include <optional>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// A tree: at each node a sampling step, below it one node for each decision that was met, at the ends the candidates.
/// For spaces that draw each decision by its address alone (Space::seed_of_first_drawing).
class KnownPoints {
 public:
  /// Where the point of these decisions ends, the others drawn with this seed; nothing if it leaves what is known.
  std::optional<int64_t> find(const std::shared_ptr<const DecisionMap>& decisions, uint64_t seed) const;
  /// The point that a schedule stands for ends at `number`. Beyond some ten thousand nodes nothing more is kept.
  void add(const Trace& trace, int64_t number);

 private:
  struct Node {
    Ref<const Step> step;             // that decides what comes next; null: an end
    std::map<Decision, size_t> next;  // the node after each decision
    int64_t number = 0;               // of an end
  };
  std::vector<Node> nodes_;
};

}  // namespace fettle
