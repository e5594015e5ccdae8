#include "codegen/device/host_stub.h"

#include <cstring>

#include "codegen/c_family/names.h"
#include "codegen/llvm/llvm_codegen.h"
#include "ir/annotations.h"
#include "ir/device_annotations.h"
#include "ir/rewrite.h"
#include "rt/device.h"

namespace fettle {

Result<Func> host_stub(const DeviceProgram& program) {
  Diagnostic wrong;
  const auto launch = [&](const CallFuncNode& call) -> Stmt {
    const auto found = program.kernels.find(call.name);
    if (found == program.kernels.end()) {
      wrong = Diagnostic(ErrorCode::E301, "there is no kernel " + call.name, program.host->name);
      return {};
    }
    const DeviceKernel& kernel = found->second;
    const size_t n_buffers = kernel.func->params.size(), n_ints = kernel.func->int_params.size();
    if (call.args.size() != n_buffers + n_ints) {
      wrong = Diagnostic(ErrorCode::E301, "wrong arguments for kernel " + call.name, program.host->name);
      return {};
    }
    std::vector<Expr> args(call.args.begin(), call.args.begin() + static_cast<std::ptrdiff_t>(n_buffers));
    args.emplace_back(static_cast<int64_t>(std::distance(program.kernels.begin(), found)));
    VarMap values;
    for (size_t i = 0; i < n_ints; ++i) {
      const Var& var = kernel.func->int_params[i].var;
      values[var.get()] = call.args[n_buffers + i];
      if (var->dtype != kI64) wrong = Diagnostic(ErrorCode::E301, "an integer is not of 64 bits", call.name);
    }
    for (const Expr& extent : kernel.grid) args.push_back(substitute(extent, values));
    args.insert(args.end(), call.args.begin() + static_cast<std::ptrdiff_t>(n_buffers), call.args.end());
    for (const TensorMap& map : kernel.tensor_maps) {
      const int64_t bytes = kernel.func->params[map.param].buffer->dtype.element_bytes();
      for (const Expr& extent : map.extents) args.push_back(substitute(extent, values));
      for (const Expr& stride : map.strides) args.push_back(substitute(stride, values) * bytes);
    }
    return call_func(kDeviceLaunch, std::move(args));
  };
  const Stmt body = rewrite_each<CallFuncNode>(program.host->body, launch);
  if (wrong.code != ErrorCode::kNone) return fail(std::move(wrong));
  return with(program.host, [&](FuncNode& f) {
    f.body = body;
    f.annotations.set(kDeviceHostKey, int64_t{1});
  });
}

int32_t tensor_map_element(DType type) {
  if (type == kF16) return 6;
  if (type == kBF16) return 9;
  if (type == kF32) return 7;
  return type.element_bytes() == 1 ? 0 : type.element_bytes() == 2 ? 1 : type.element_bytes() == 4 ? 2 : 4;
}

std::vector<uint8_t> device_code(const DeviceProgram& program, const std::vector<std::string>& images,
                                 int64_t (*dynamic_shared_bytes)(const DeviceKernel& kernel)) {
  constexpr size_t kAlignment = 64;
  const rt::DeviceCode head{static_cast<int32_t>(images.size()), static_cast<int32_t>(program.kernels.size())};
  std::vector<rt::DeviceImage> image_table;
  std::vector<rt::DeviceKernel> kernel_table;
  const size_t first =
      sizeof head + images.size() * sizeof(rt::DeviceImage) + program.kernels.size() * sizeof(rt::DeviceKernel);
  std::string rest;  // from `first` on
  const auto align = [&](size_t to) { rest.resize((first + rest.size() + to - 1) / to * to - first); };
  for (const auto& [name, kernel] : program.kernels) {
    rt::DeviceKernel entry{};
    entry.name_at = static_cast<int64_t>(first + rest.size());
    rest += c_family::identifier(name) + '\0';
    entry.n_buffers = static_cast<int32_t>(kernel.func->params.size());
    entry.n_ints = static_cast<int32_t>(kernel.func->int_params.size());
    for (size_t d = 0; d < 3; ++d) entry.block[d] = static_cast<int32_t>(kernel.block[d]);
    entry.shared_bytes = static_cast<int32_t>(dynamic_shared_bytes(kernel));
    entry.n_maps = static_cast<int32_t>(kernel.tensor_maps.size());
    align(alignof(rt::DeviceTensorMap));
    entry.maps_at = static_cast<int64_t>(first + rest.size());
    for (const TensorMap& map : kernel.tensor_maps) {
      rt::DeviceTensorMap one{};
      one.buffer = static_cast<int32_t>(map.param);
      one.element = tensor_map_element(kernel.func->params[map.param].buffer->dtype);
      one.rank = static_cast<int32_t>(map.box.size());
      for (size_t d = 0; d < map.box.size(); ++d) one.box[d] = static_cast<int32_t>(map.box[d]);
      rest.append(reinterpret_cast<const char*>(&one), sizeof one);
    }
    kernel_table.push_back(entry);
  }
  for (const std::string& image : images) {
    align(kAlignment);
    image_table.push_back({static_cast<int64_t>(first + rest.size()), static_cast<int64_t>(image.size())});
    rest += image + '\0';
  }
  std::vector<uint8_t> code;
  const auto add = [&](const void* data, size_t bytes) {
    const auto* at = static_cast<const uint8_t*>(data);
    code.insert(code.end(), at, at + bytes);
  };
  add(&head, sizeof head);
  add(image_table.data(), image_table.size() * sizeof(rt::DeviceImage));
  add(kernel_table.data(), kernel_table.size() * sizeof(rt::DeviceKernel));
  add(rest.data(), rest.size());
  return code;
}

Result<std::vector<uint8_t>> compile_stub(const DeviceProgram& program, std::vector<uint8_t> code,
                                          const std::string& entry) {
  FETTLE_TRY(const Func stub, host_stub(program));
  IrModule module;
  module.entry = stub->name;
  module.funcs[stub->name] = stub;
  return compile_object(module, host_of_devices(), {.entry_name = entry, .device_code = std::move(code)});
}

Target host_of_devices() {
  Target host;
  host.cpu = "x86-64";
  host.vector_bits = 128;
  host.vector_registers = 16;
  return host;
}

}  // namespace fettle
