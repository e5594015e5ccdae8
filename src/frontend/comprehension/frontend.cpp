#include "frontend/frontend.h"

#include "frontend/comprehension/import.h"
#include "frontend/onnx/model_file.h"

namespace fettle {
namespace {

Result<Graph> import_file(const std::string& path, const InputNames&, const Limits& limits) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  const std::string_view text(reinterpret_cast<const char*>(file.bytes.get()), static_cast<size_t>(file.size_bytes));
  return import_comprehension(text, {}, path, limits);
}

}  // namespace

extern constinit const FrontendDef comprehension_frontend = {
    .name = "comprehension",
    .recognizes = [](std::string_view path, std::span<const std::byte>) { return path.ends_with(".tc"); },
    .import = import_file,
};

}  // namespace fettle
