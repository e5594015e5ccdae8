#include "frontend/frontend.h"

#include <algorithm>

#include "frontend/onnx/model_file.h"
#include "frontend/stablehlo/import.h"
#include "frontend/stablehlo/read.h"

namespace fettle {
namespace {

bool is_stablehlo(std::string_view path, std::span<const std::byte> head) {
  constexpr std::string_view kEndings[] = {".mlir", ".mlirbc", ".stablehlo"};
  return stablehlo::is_bytecode(head) ||
         std::ranges::any_of(kEndings, [&](std::string_view ending) { return path.ends_with(ending); });
}

Result<Graph> import_file(const std::string& path, const InputNames&, const Limits& limits) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  FETTLE_TRY(const stablehlo::Module module,
             stablehlo::read_module({file.bytes.get(), static_cast<size_t>(file.size_bytes)}, path, limits));
  return import_stablehlo(module, limits);
}

}  // namespace

extern constinit const FrontendDef stablehlo_frontend = {
    .name = "stablehlo", .recognizes = is_stablehlo, .import = import_file};

}  // namespace fettle
