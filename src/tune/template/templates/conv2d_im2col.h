#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution as a matrix product: its windows become rows of a matrix (reformulate im2col).
extern const TemplateDef conv2d_im2col_template;

}  // namespace fettle
