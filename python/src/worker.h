#pragma once
// Where the worker that measures candidates is.

#include <string>

namespace fettle::python {

/// Empty: beside this program.
std::string& worker_path();

}  // namespace fettle::python
