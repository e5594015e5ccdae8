#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution with 2 window dimensions, any layout, stride, dilation and padding.
extern const TemplateDef conv2d_template;

}  // namespace fettle
