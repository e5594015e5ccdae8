#include "codegen/cuda/cuda_compile.h"

#include <cstdlib>

#include <fmt/format.h>

#include "codegen/cuda/shared_library.h"

namespace fettle {
namespace {

// The part of nvrtc.h that is used; its ABI has not changed since CUDA 11.2.
using Program = struct NvrtcProgramOpaque*;
struct Nvrtc : SharedLibrary {
  using SharedLibrary::SharedLibrary;
  Imported<int(Program*, const char* source, const char* name, int headers, const char* const*, const char* const*)>
      create{*this, "nvrtcCreateProgram"};
  Imported<int(Program*)> destroy{*this, "nvrtcDestroyProgram"};
  Imported<int(Program, int options, const char* const*)> compile{*this, "nvrtcCompileProgram"};
  Imported<int(Program, size_t*)> log_size{*this, "nvrtcGetProgramLogSize"};
  Imported<int(Program, char*)> log{*this, "nvrtcGetProgramLog"};
  Imported<int(Program, size_t*)> ptx_size{*this, "nvrtcGetPTXSize"};
  Imported<int(Program, char*)> ptx{*this, "nvrtcGetPTX"};
  Imported<int(Program, size_t*)> cubin_size{*this, "nvrtcGetCUBINSize"};
  Imported<int(Program, char*)> cubin{*this, "nvrtcGetCUBIN"};
  Imported<const char*(int)> error{*this, "nvrtcGetErrorString"};
  Imported<int(int*, int*)> version{*this, "nvrtcVersion"};
};

const Nvrtc& nvrtc() {
  const char* given = std::getenv("FETTLE_NVRTC");
  static const Nvrtc api{
      given ? std::vector<std::string>{given}
            : std::vector<std::string>{"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"}};
  return api;
}

}  // namespace

bool has_nvrtc() { return nvrtc().complete; }

std::string nvrtc_version() {
  int major = 0, minor = 0;
  if (!has_nvrtc() || nvrtc().version(&major, &minor) != 0) return {};
  return fmt::format("{}.{}", major, minor);
}

Result<std::string> compile_cuda(const std::string& source, std::string_view arch,
                                 const std::vector<std::string>& options) {
  const Nvrtc& api = nvrtc();
  if (!api.complete) return fail(ErrorCode::E708, "NVRTC is not installed; FETTLE_NVRTC may name the library", "cuda");
  Program program = nullptr;
  if (const int status = api.create(&program, source.c_str(), "kernels.cu", 0, nullptr, nullptr))
    return fail(ErrorCode::E302, fmt::format("NVRTC: {}", api.error(status)), "cuda");
  const std::string arch_option = fmt::format("--gpu-architecture={}", arch);
  std::vector<const char*> all = {arch_option.c_str()};
  for (const std::string& option : options) all.push_back(option.c_str());
  const int status = api.compile(program, static_cast<int>(all.size()), all.data());
  size_t size = 0;
  Result<std::string> result = std::string();
  if (status != 0) {
    api.log_size(program, &size);
    std::string log(size, '\0');
    api.log(program, log.data());
    while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
    result = fail(ErrorCode::E302, fmt::format("NVRTC: {}: {}", api.error(status), log), "cuda");
  } else {
    const bool machine_code = arch.starts_with("sm_");
    (machine_code ? api.cubin_size : api.ptx_size)(program, &size);
    std::string code(size, '\0');
    (machine_code ? api.cubin : api.ptx)(program, code.data());
    result = std::move(code);
  }
  api.destroy(&program);
  return result;
}

}  // namespace fettle
