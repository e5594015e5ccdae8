#pragma once
// The built-in rules, one a source; each source says what it does. Their order is space_rules().

#include "tune/space/rule.h"

namespace fettle {

extern const Rule strip_fusion_def;
extern const Rule multi_level_tiling_with_intrin_def;
extern const Rule row_fusion_def;
extern const Rule register_tiling_def;
extern const Rule loop_nest_def;

}  // namespace fettle
