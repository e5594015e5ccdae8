#include "codegen/device_def.h"

#include "codegen/llvm/jit_module.h"

namespace fettle {

std::span<const DeviceDef* const> devices() {
  static constexpr const DeviceDef* list[] = {&cpu_device, &cuda_device, &opencl_device};
  return list;
}

Result<LoadedImage> load_image(const KernelImage& image, const std::string& entry) {
  std::vector<std::vector<uint8_t>> objects;
  for (const CodePart& part : image) objects.push_back(*part.bytes);
  FETTLE_TRY(JitModule linked, JitModule::load(objects));
  const auto module = std::make_shared<const JitModule>(std::move(linked));
  const auto function = reinterpret_cast<FettleKernel>(module->lookup(entry));
  if (!function) return fail(ErrorCode::E303, "the object does not define " + entry);
  return LoadedImage{function, module, module->size_bytes()};
}

Result<const DeviceDef*> device_of(const Target& target) {
  for (const DeviceDef* device : devices())
    if (device->kind == target.kind) return device;
  return fail(ErrorCode::E301, "no device runs kernels for targets of kind \"" + target.kind + "\"");
}

}  // namespace fettle
