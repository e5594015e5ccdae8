// CUDA as a device: machine code for the target's architecture, and PTX for later ones.
#include <fmt/format.h>

#include "codegen/cuda/cuda_codegen.h"
#include "codegen/cuda/cuda_compile.h"
#include "codegen/device/gpu_device.h"
#include "ir/annotations.h"

namespace fettle {
namespace {

constexpr std::string_view kFallback = "compute_80";

Result<std::string> compiled(const std::string& source, std::string_view arch, const std::string& option,
                             ObjectCache& cache) {
  const std::string key = fmt::format("{}\n{} {} {}", source, arch, option, nvrtc_version());
  FETTLE_TRY(const ObjectBytes code, cache.get(key, [&]() -> Result<std::vector<uint8_t>> {
    FETTLE_TRY(const std::string made, compile_cuda(source, arch, {option}));
    return std::vector<uint8_t>(made.begin(), made.end());
  }));
  return std::string(code->begin(), code->end());
}

Result<GpuCode> emit_cuda_code(const DeviceProgram& program, const Target& target, bool portable, ObjectCache& cache) {
  FETTLE_TRY(const std::string source, emit_cuda(program));
  // As on the CPU, a*b + c is one rounding unless the program says otherwise.
  const bool contracts = program.host->annotations.get_int(kContractKey, 1) != 0;
  const std::string option = contracts ? "--fmad=true" : "--fmad=false";
  GpuCode code{{}, dynamic_shared_bytes};
  FETTLE_TRY(std::string machine_code, compiled(source, target.cpu, option, cache));
  code.images.push_back(std::move(machine_code));
  if (!portable) return code;
  // What only the target's architecture has is in no PTX for others.
  if (auto text = compiled(source, kFallback, option, cache)) code.images.push_back(std::move(*text));
  return code;
}

}  // namespace

constinit const DeviceDef cuda_device = gpu_device<fettle_cuda_driver, emit_cuda_code>("cuda", "fettle_cuda_driver");

}  // namespace fettle
