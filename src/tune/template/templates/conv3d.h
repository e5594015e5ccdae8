#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution with 3 window dimensions, any layout, stride, dilation and padding.
extern const TemplateDef conv3d_template;

}  // namespace fettle
