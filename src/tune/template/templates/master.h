#pragma once

#include "tune/template/template_def.h"

namespace fettle {

/// Any program of plain nests: the knobs are what its tensor expressions have. (Chen et al.: TVM, OSDI 2018,
/// section 5.1.)
///   for each block: a cut of each loop, an order of the parts, lanes or unrolling of the innermost, threads of the
///   outermost
/// What is computed element by element joins its readers.
extern const TemplateDef master_template;

}  // namespace fettle
