#pragma once
// Compiles CUDA C++ to PTX or machine code by NVRTC, which is loaded where it is present. Nothing in Fettle requires
// it.

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace fettle {

/// True if NVRTC was found: the library that FETTLE_NVRTC names, else libnvrtc.so (.13, .12, .11.2) where the loader
/// looks.
bool has_nvrtc();
/// "13.0"; empty where there is none.
std::string nvrtc_version();

/// `arch`: "sm_80" gives machine code (CUBIN), "compute_80" gives PTX. `options` are further ones of NVRTC.
/// E302 with the compiler's log where the source does not compile · E708 where there is no NVRTC
Result<std::string> compile_cuda(const std::string& source, std::string_view arch,
                                 const std::vector<std::string>& options = {"--fmad=false"});

}  // namespace fettle
