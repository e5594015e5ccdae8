#pragma once
// How much a thread of a nest has at once.

#include <vector>

#include "target/target.h"
#include "tune/parts/structure.h"

namespace fettle {

inline constexpr int64_t kThreadsOfBlock = 256;  // fewer where that leaves multiprocessors idle

/// Neighbours along the last loop that one access takes, and how often a thread has so many, a block's width apart.
struct Width {
  int64_t lanes = 1, turns = 1;
};

/// Which loads under a condition may be accesses of several elements: none, or those of whole rows, which a condition
/// takes or leaves as a whole.
enum class Guards : uint8_t { kNone, kOfRows };

/// Lanes where what is written, along the loop of this number, goes on in memory, at multiples of as many elements as
/// an access takes; turns so that enough is asked for at once.
Width width_of(const Target& target, const BlockStructure& block, size_t last, Guards guards = Guards::kNone);

/// Candidates of a choice: `preferred`, and the others.
std::vector<int64_t> first_of(int64_t preferred, std::vector<int64_t> all);

}  // namespace fettle
