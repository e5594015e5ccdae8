#pragma once
// Where a model that is compiled comes from.

#include "driver/load.h"

namespace fettle::python {

struct PySource {
  ModelSource source;
};

}  // namespace fettle::python
