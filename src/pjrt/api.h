#pragma once
// PJRT: the interface in C by which JAX finds devices, moves arrays, compiles programs and runs them.

#include <xla/pjrt/c/pjrt_c_api.h>

namespace fettle::pjrt {

/// Every function of the interface. What is not there fails with UNIMPLEMENTED and its name.
const PJRT_Api* pjrt_api();

}  // namespace fettle::pjrt
