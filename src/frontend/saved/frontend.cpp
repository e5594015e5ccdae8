#include "frontend/frontend.h"

#include "frontend/onnx/model_file.h"
#include "frontend/saved/saved.h"

namespace fettle {
namespace {

Result<Graph> import_file(const std::string& path, const ImportOptions& options) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  return read_saved_graph(file.bytes, file.size_bytes, path, options.limits);
}

}  // namespace

extern constinit const FrontendDef saved_frontend = {
    .name = "saved graph",
    .kind = "a saved graph",
    .endings = ".fettle",
    .recognizes = [](std::string_view path,
                     std::span<const std::byte> head) { return is_saved_graph(head) || path.ends_with(".fettle"); },
    .import = import_file,
};

}  // namespace fettle
