#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution in groups of channels: O[o, h, w] += I[o // 4 * 8 + c, h + r, w + q] * W[o, c, r, q], or with a loop
/// over groups.
extern const TemplateDef grouped_conv_template;

}  // namespace fettle
