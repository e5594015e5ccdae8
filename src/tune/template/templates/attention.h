#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// Two products of matrices, and between them what works row by row: scores, their softmax, and what they weigh.
///   S = Q @ K^T;   M, E, T, P: the softmax of S's rows;   Y = P @ V
/// Each product in register tiles with knobs of its own ("vectors_S", "tile_i_S", …), the rows between fused as in
/// softmax.
extern const TemplateDef attention_template;

}  // namespace fettle
