#include "measure/loaded_kernel.h"

namespace fettle {

Result<LoadedKernel> LoadedKernel::load(BuiltKernel built) {
  LoadedKernel loaded;
  FETTLE_TRY(loaded.kernel, load_image(built.image, built.entry));
  if (!built.prologue_entry.empty()) {
    FETTLE_TRY(loaded.prologue, load_image(built.prologue_image, built.prologue_entry));
  }
  loaded.built = std::move(built);
  return loaded;
}

}  // namespace fettle
