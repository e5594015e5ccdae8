#pragma once
// The tasks of the search benchmark: programs of every kind that models have, half of them of odd shapes.

#include <map>
#include <string>
#include <vector>

#include "ir/func.h"

namespace fettle::bench {

struct SearchTask {
  std::string name;    // "conv3x3 56x56 64-64"
  std::string family;  // "matmul", "conv", "depthwise", "pool", "softmax", …: what a model may be trained without
  bool odd = false;    // some extent is no multiple of 16
  double flops = 0;    // nominal, taps in the padding counted; 0: rates mean nothing here
  /// What the peer needs to make it: "op", and numbers by name.
  std::string op;
  std::map<std::string, int64_t> numbers;
  Func program;
};

/// fp32. Images are channels last, weights (taps, channels in, channels out) and constant.
const std::vector<SearchTask>& search_tasks();
/// Other shapes of the same families, drawn at random, the same each time: what the correction of the prediction is
/// trained on (learning.h).
const std::vector<SearchTask>& training_tasks();

}  // namespace fettle::bench
