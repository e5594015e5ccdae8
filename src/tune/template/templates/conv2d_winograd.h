#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// A convolution of stride 1 by Winograd's minimal filtering (reformulate winograd), in tiles of 4 x 4 outputs, or of 2
/// x 2 where there are fewer than 8 rows or columns.
extern const TemplateDef conv2d_winograd_template;

}  // namespace fettle
