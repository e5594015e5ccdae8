#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// Exponentials over their sum, row by row.
extern const TemplateDef softmax_template;

}  // namespace fettle
