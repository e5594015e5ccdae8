#include "frontend/frontend.h"

#include "frontend/comprehension/import.h"
#include "frontend/onnx/model_file.h"

namespace fettle {
namespace {

std::string_view text_of(const onnx_reader::MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes.get()), static_cast<size_t>(file.size_bytes)};
}

Result<Graph> import_file(const std::string& path, const ImportOptions& options) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  return import_comprehension(text_of(file), options.function, path, options.limits);
}

std::vector<Diagnostic> problems_of_file(const std::string& path, const ImportOptions& options) {
  const auto file = onnx_reader::map_file(path);
  if (!file) return {file.error()};
  std::vector<Diagnostic> problems = check_comprehensions(text_of(*file), options.function, options.limits);
  for (Diagnostic& problem : problems) problem.where = path + (problem.where.empty() ? "" : ":" + problem.where);
  return problems;
}

}  // namespace

extern constinit const FrontendDef comprehension_frontend = {
    .name = "comprehension",
    .kind = "comprehensions",
    .endings = ".tc",
    .recognizes = [](std::string_view path, std::span<const std::byte>) { return path.ends_with(".tc"); },
    .import = import_file,
    .has_functions = true,
    .problems = problems_of_file,
};

}  // namespace fettle
