#include "frontend/frontend.h"

namespace fettle {

extern constinit const FrontendDef onnx_frontend = {
    .name = "onnx",
    .kind = "an ONNX model",
    .endings = ".onnx",
    .recognizes = [](std::string_view path, std::span<const std::byte>) { return path.ends_with(".onnx"); },
    .import = [](const std::string& path,
                 const ImportOptions& options) { return import_onnx(path, options.given, options.limits); },
    .parts = [](std::span<const std::byte> bytes, const std::string& path) -> Result<std::vector<std::string>> {
      FETTLE_TRY(const OnnxModel model, parse_onnx_outline(bytes, std::nullopt, path));
      return external_files(model);
    },
};

}  // namespace fettle
