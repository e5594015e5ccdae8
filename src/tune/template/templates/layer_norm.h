#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// Rows less their mean, over their deviation.
extern const TemplateDef layer_norm_template;

}  // namespace fettle
