#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// What reduces nothing: one pass over the elements, in vectors.
extern const TemplateDef elementwise_template;

}  // namespace fettle
