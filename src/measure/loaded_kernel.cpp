#include "measure/loaded_kernel.h"

namespace fettle {

Result<LoadedKernel> LoadedKernel::load(BuiltKernel built) {
  FETTLE_TRY(LoadedImage kernel, load_image(built.image, built.entry));
  FETTLE_TRY(LoadedKernel loaded, load_prologue(std::move(built)));
  loaded.kernel = std::move(kernel);
  return loaded;
}

Result<LoadedKernel> LoadedKernel::load_prologue(BuiltKernel built) {
  LoadedKernel loaded;
  if (!built.prologue_entry.empty()) {
    FETTLE_TRY(loaded.prologue, load_image(built.prologue_image, built.prologue_entry));
  }
  loaded.built = std::move(built);
  return loaded;
}

}  // namespace fettle
