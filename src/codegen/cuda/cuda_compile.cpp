#include "codegen/cuda/cuda_compile.h"

#include <dlfcn.h>

#include <cstdlib>

#include <fmt/format.h>

namespace fettle {
namespace {

// The part of nvrtc.h that is used; its ABI has not changed since CUDA 11.2.
using Program = struct NvrtcProgramOpaque*;
struct Nvrtc {
  int (*create)(Program*, const char* source, const char* name, int headers, const char* const*,
                const char* const*) = nullptr;
  int (*destroy)(Program*) = nullptr;
  int (*compile)(Program, int options, const char* const*) = nullptr;
  int (*log_size)(Program, size_t*) = nullptr;
  int (*log)(Program, char*) = nullptr;
  int (*ptx_size)(Program, size_t*) = nullptr;
  int (*ptx)(Program, char*) = nullptr;
  int (*cubin_size)(Program, size_t*) = nullptr;
  int (*cubin)(Program, char*) = nullptr;
  const char* (*error)(int) = nullptr;
  bool found = false;
};

Nvrtc load() {
  Nvrtc api;
  std::vector<std::string> names = {"libnvrtc.so", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2"};
  if (const char* given = std::getenv("FETTLE_NVRTC")) names = {given};
  void* library = nullptr;
  for (const std::string& name : names)
    if (!library) library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return api;
  bool all = true;
  const auto get = [&](auto& function, const char* name) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    all &= function != nullptr;
  };
  get(api.create, "nvrtcCreateProgram");
  get(api.destroy, "nvrtcDestroyProgram");
  get(api.compile, "nvrtcCompileProgram");
  get(api.log_size, "nvrtcGetProgramLogSize");
  get(api.log, "nvrtcGetProgramLog");
  get(api.ptx_size, "nvrtcGetPTXSize");
  get(api.ptx, "nvrtcGetPTX");
  get(api.cubin_size, "nvrtcGetCUBINSize");
  get(api.cubin, "nvrtcGetCUBIN");
  get(api.error, "nvrtcGetErrorString");
  api.found = all;
  return api;
}

const Nvrtc& nvrtc() {
  static const Nvrtc api = load();
  return api;
}

}  // namespace

bool has_nvrtc() { return nvrtc().found; }

Result<std::string> compile_cuda(const std::string& source, std::string_view arch,
                                 const std::vector<std::string>& options) {
  const Nvrtc& api = nvrtc();
  if (!api.found) return fail(ErrorCode::E708, "NVRTC is not installed; FETTLE_NVRTC may name the library", "cuda");
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
