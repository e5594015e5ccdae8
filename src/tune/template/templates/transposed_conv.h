#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A transposed convolution whose windows lie side by side: O[h, w, c] += I[h // 2, w // 2, i] * W[i, c, h % 2, w % 2].
extern const TemplateDef transposed_conv_template;

}  // namespace fettle
