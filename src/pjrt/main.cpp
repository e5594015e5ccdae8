// The plug-in: what JAX looks for in the library that it loads.

#include "pjrt/api.h"

extern "C" __attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi() { return fettle::pjrt::pjrt_api(); }
#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/read.h"
namespace fettle { namespace stablehlo { __attribute__((weak)) Result<Module> read_module(std::span<const std::byte>, const std::string&, const Limits&) { return fail(ErrorCode::E602,"tmp"); } }
__attribute__((weak)) Result<Graph> import_stablehlo(const stablehlo::Module&, const Limits&) { return fail(ErrorCode::E602,"tmp"); } }
