#pragma once
// A candidate's decisions as a vector: AutoTVM's knob features. (Chen et al.: Learning to Optimize Tensor Programs,
// NeurIPS 2018.)

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The values of a configuration's knobs, one after the other in the order of their names:
///   { "order": [3], "tile_y": [8, 64] }   →   values 3, 8, 64   names order, tile_y[0], tile_y[1]
/// A cut has a number for each factor; what was chosen from a list (an order, notes, a value) has its index.
struct KnobFeatures {
  std::vector<float> values;
  std::vector<std::string> names;
  uint64_t columns = 0;  // a hash of the names
};
KnobFeatures knob_features(const DecisionMap& decisions);

}  // namespace fettle
