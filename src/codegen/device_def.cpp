#include "codegen/device_def.h"

namespace fettle {

std::span<const DeviceDef* const> devices() {
  static constexpr const DeviceDef* list[] = {&cpu_device};
  return list;
}

Result<const DeviceDef*> device_of(const Target& target) {
  for (const DeviceDef* device : devices())
    if (device->kind == target.kind) return device;
  return fail(ErrorCode::E301, "no device runs kernels for targets of kind \"" + target.kind + "\"");
}

}  // namespace fettle
