#pragma once
// Threads that another library of the process has, for models to run on.

#include "runtime/openmp_team.h"

namespace fettle::python {

/// What `openmp` points to is never freed: models that run on its threads may outlive this object.
struct PyTeam {
  const OpenMp* openmp;
};

}  // namespace fettle::python
