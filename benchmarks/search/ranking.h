#pragma once
// How well what was predicted ranks what was measured.

#include <vector>

namespace fettle::bench {

struct Ranking {
  double accuracy = 0;        // share of pairs, more than 2 % apart, in the right order
  double recall = 0;          // share of the k fastest among the k best predicted
  double regret = 0;          // of the fastest of the k best predicted over the fastest of all: 0.02 is 2 % slower
  double untimed_regret = 0;  // of the best predicted
};
/// k: 8, or a quarter of them where they are fewer than 32. NaN without pairs.
Ranking rank(const std::vector<double>& predicted, const std::vector<double>& seconds);

}  // namespace fettle::bench
