#pragma once
// Two tunings, or two compiled models, task by task.

#include "binding.h"

namespace fettle::python {

void bind_comparison(nb::module_& m);

}  // namespace fettle::python
