// The plug-in: what JAX looks for in the library that it loads.

#include "pjrt/api.h"

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() { return fettle::pjrt::pjrt_api(); }
