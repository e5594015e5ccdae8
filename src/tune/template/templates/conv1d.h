#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution with 1 window dimension, any layout, stride, dilation and padding.
extern const TemplateDef conv1d_template;

}  // namespace fettle
