#include "measure/loaded_kernel.h"

namespace fettle {

Result<LoadedKernel> LoadedKernel::load(const DeviceDef& device, BuiltKernel built) {
  LoadedKernel loaded;
  FETTLE_TRY(loaded.kernel, device.load(built.image, built.entry));
  if (!built.prologue_entry.empty()) {
    FETTLE_TRY(loaded.prologue, device.load(built.prologue_image, built.prologue_entry));
  }
  loaded.built = std::move(built);
  return loaded;
}

}  // namespace fettle
