#include "binding.h"
namespace fettle::python {
void bind_templates(nb::module_&) {}
void bind_sketches(nb::module_&) {}
void bind_runners(nb::module_&) {}
void bind_cost_models(nb::module_&) {}
void bind_search(nb::module_&) {}
void bind_tuning(nb::module_&) {}
void bind_models(nb::module_&) {}
}
