#include "measure/loaded_kernel.h"

namespace fettle {
namespace {

Result<FettleKernel> link(const std::vector<NamedObject>& named, const std::string& entry,
                          std::vector<JitModule>& modules) {
  std::vector<std::vector<uint8_t>> objects;
  for (const NamedObject& object : named) objects.push_back(*object.bytes);
  FETTLE_TRY(JitModule module, JitModule::load(objects));
  const auto function = reinterpret_cast<FettleKernel>(module.lookup(entry));
  if (!function) return fail(ErrorCode::E303, "the object does not define " + entry);
  modules.push_back(std::move(module));
  return function;
}

}  // namespace

Result<LoadedKernel> LoadedKernel::load(BuiltKernel built) {
  LoadedKernel loaded;
  FETTLE_TRY(loaded.kernel, link(built.objects, built.entry, loaded.modules));
  if (!built.prologue_entry.empty()) {
    FETTLE_TRY(loaded.prologue, link(built.prologue_objects, built.prologue_entry, loaded.modules));
  }
  loaded.built = std::move(built);
  return loaded;
}

}  // namespace fettle
