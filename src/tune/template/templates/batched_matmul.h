#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// C[b, i, j] += A[b, i, k] * B[b, k, j].
extern const TemplateDef batched_matmul_template;

}  // namespace fettle
