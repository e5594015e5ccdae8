#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// O[c, h, w] += I[c, h + r, w + q] * W[c, r, q]: windows alone are summed over, and both factors depend on the
/// channel.
extern const TemplateDef depthwise_conv_template;

}  // namespace fettle
