#pragma once
// A lower bound on the time of a workload: its multiply-adds at the machine's peak.

#include <optional>
#include <vector>

#include "ir/func.h"
#include "tune/parts/structure.h"

namespace fettle {

/// Floating point operations that every program of the workload has to do that computes it as it is written: 2 for each
/// multiply-add of its contractions, taps in the padding left out. 0 where it has none.
double needed_flops(const Func& workload);

/// Blocks of a workload that only pad.
class Paddings {
 public:
  explicit Paddings(const Func& workload);

  /// Of the points of `reader`, the share at which it reads no padding; the least one over what it loads.
  ///   a convolution of 3x3 taps over 7x7 pixels: (19 / 21)²
  double share_inside(const BlockStructure& reader) const;

 private:
  struct Padding {
    Buffer buffer;
    double share = 1;  // of its elements that come from elsewhere
    std::vector<std::vector<char>>
        inside;  // by dimension, then by index; none where a condition is no product of these
  };
  static std::optional<Padding> padding_of(const Func& workload, const BlockNode& block);
  static double share_inside(const BlockStructure& reader, const AccessPattern& load, const Padding& padding);

  std::vector<Padding> paddings_;
};

}  // namespace fettle
