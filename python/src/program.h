#pragma once
// Programs and targets as Python sees them.

#include <memory>
#include <string>

#include "binding.h"
#include "ir/func.h"
#include "target/target.h"

namespace fettle::python {

struct PyFunc {
  Func func;
};

using TargetPtr = std::shared_ptr<const Target>;
/// A Target, its text, or None: this machine.
TargetPtr to_target(nb::handle value);

/// The same program in trees of its own, which no other thread knows.
Func private_copy(const Func& func);

}  // namespace fettle::python
