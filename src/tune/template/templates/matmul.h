#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// C[i, j] += A[i, k] * B[k, j], in any layout, also of several rows of indices (a 1x1 convolution).
extern const TemplateDef matmul_template;

}  // namespace fettle
