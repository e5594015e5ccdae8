// The module fettle._fettle: its table of contents.

#include "base/version.h"
#include "binding.h"
#include "comparison.h"

NB_MODULE(_fettle, m) {
  using namespace fettle::python;
  // Functions that C++ holds (templates, constraints) are cycles that Python's collector cannot see.
  nanobind::set_leak_warnings(false);
  m.def("name_and_version", &fettle::name_and_version);
  nb::module_ te = m.def_submodule("te");
  bind_errors(m);
  bind_expressions(m);
  bind_programs(m);
  bind_tensors(m);
  bind_schedules(m);
  bind_kernels(m);
  bind_templates(m);
  bind_sketches(m);
  bind_runners(m);
  bind_cost_models(m);
  bind_search(m);
  bind_tuning(m);
  bind_layouts(m);
  bind_own_operators(m);
  bind_teams(m);
  bind_models(m);
  bind_model_files(m);
  bind_quantize(m);
  bind_comparison(m);
  bind_graphs(m);
  bind_comprehensions(m);
  bind_model_tuning(m);
}
