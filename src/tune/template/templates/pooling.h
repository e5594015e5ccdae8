#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// P[c, h, w] = max or sum over r, q of I[c, 2h + r, 2w + q].
extern const TemplateDef pooling_template;

}  // namespace fettle
