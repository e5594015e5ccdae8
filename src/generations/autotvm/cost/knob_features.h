#pragma once
// A candidate's decisions as a vector: AutoTVM's knob features. (Chen et al.: Learning to Optimize Tensor Programs,
// NeurIPS 2018.)

#include <cstdint>
#include <string>
#include <vector>

#include "schedule/schedule.h"

namespace fettle {

/// The values of a configuration's knobs, one after the other in the order of their names:
///   { "order": 1,0; "steps": 4; "tile_y": [8, 64] }   →   values 1, 0, 4, 8, 64
///   names order[0], order[1], steps, tile_y[0], tile_y[1]
/// Of names of values each part between commas is a number: itself; the product of those in it, 28 of 14x2; of a word a
/// number below 1024 that tells it from others.
struct KnobFeatures {
  std::vector<float> values;
  std::vector<std::string> names;
  uint64_t columns = 0;  // a hash of the names
};
KnobFeatures knob_features(const DecisionMap& decisions);

}  // namespace fettle
