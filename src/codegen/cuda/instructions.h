#pragma once
// Helper functions of printed code (codegen/c_family/helpers.h) that are one instruction of the GPU.

#include <map>
#include <string>

namespace fettle {

/// By name. NaN becomes the NaN of the instruction, whatever its bits were. rsqrt errs by 2 ulp at most.
std::map<std::string, std::string, std::less<>> cuda_helpers();

}  // namespace fettle
