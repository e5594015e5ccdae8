#include "frontend/frontend.h"

#include <algorithm>

#include "frontend/onnx/model_file.h"

namespace fettle {

extern const FrontendDef onnx_frontend;

Result<const FrontendDef*> frontend_of(const std::string& path) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  const std::span head(file.bytes.get(), static_cast<size_t>(std::min<int64_t>(file.size_bytes, 64)));
  const auto reads = [&](const FrontendDef* frontend) { return frontend->recognizes(path, head); };
  const auto found = std::ranges::find_if(frontends(), reads);
  return found == frontends().end() ? &onnx_frontend : *found;
}

Result<Graph> import_model(const std::string& path, const InputNames& given, const Limits& limits) {
  FETTLE_TRY(const FrontendDef* frontend, frontend_of(path));
  return frontend->import(path, given, limits);
}

}  // namespace fettle
