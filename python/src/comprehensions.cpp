// Functions of tensor comprehensions.

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "binding.h"
#include "frontend/comprehension/import.h"
#include "model_source.h"

namespace fettle::python {

void bind_comprehensions(nb::module_& m) {
  m.def(
      "_comprehension_names", [](const std::string& text) { return take(comprehension_names(text)); }, nb::arg("text"));
  m.def(
      "_comprehension_source",
      [](const std::string& text, const std::string& name) { return PySource{take(comprehension_model(text, name))}; },
      nb::arg("text"), nb::arg("name"));
}

}  // namespace fettle::python
