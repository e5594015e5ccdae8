#pragma once
// What bench-cuda measures.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle::bench {

// One way to schedule a subject.
struct Variant {
  std::string name;
  std::function<Result<>(Schedule&)> schedule;
  std::vector<std::string> options = {};  // NVRTC's, further
};

struct Subject {
  std::string name;
  Func func;
  std::vector<Variant> variants;
  double flops = 0, bytes = 0;  // one of them: what it is measured in
  DType factors = kF32, result = kF32;
  int64_t m = 0, n = 0, k = 0;  // of a product
  double tolerance = 0;         // of |difference| / rms of the result
  double bound = 0;             // share of the peer
  /// The element of the output at a place, in double; inputs by their number.
  std::function<double(int64_t at, const std::vector<std::vector<double>>&)> reference;
};

}  // namespace fettle::bench
