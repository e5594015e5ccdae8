#include "frontend/frontend.h"

#include <algorithm>
#include <cstdio>

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

Result<stablehlo::Module> read_file(const std::string& path, const Limits& limits) {
  FETTLE_TRY(const onnx_reader::MappedFile file, onnx_reader::map_file(path));
  return stablehlo::read_module({file.bytes.get(), static_cast<size_t>(file.size_bytes)}, path, limits);
}

Result<Graph> import_file(const std::string& path, const ImportOptions& options) {
  FETTLE_TRY(const stablehlo::Module module, read_file(path, options.limits));
  return import_stablehlo(module, options.limits, options.function);
}

Result<ModelSurvey> survey_file(const std::string& path, const ImportOptions& options) {
  FETTLE_TRY(const stablehlo::Module module, read_file(path, options.limits));
  return survey_stablehlo(module, options.function);
}

// "f.mlir:12:3" of "stablehlo.add, line 12, column 3": what editors jump to. What it was about is in the message.
void put_in_file(Diagnostic& problem, const std::string& path) {
  const size_t at = problem.where.rfind("line ");
  int line = 0, column = 0;
  if (at == std::string::npos || std::sscanf(problem.where.c_str() + at, "line %d, column %d", &line, &column) != 2) {
    if (problem.where.empty()) problem.where = path;
    return;
  }
  std::string about = problem.where.substr(0, at);
  while (about.ends_with(' ') || about.ends_with(',')) about.pop_back();
  if (!about.empty() && about != path) problem.message = about + ": " + problem.message;
  problem.where = path + ":" + std::to_string(line) + ":" + std::to_string(column);
}

std::vector<Diagnostic> problems_of_file(const std::string& path, const ImportOptions& options) {
  const auto module = read_file(path, options.limits);
  std::vector<Diagnostic> problems;
  if (module)
    problems = stablehlo_problems(*module, options.limits, options.function);
  else
    problems.push_back(module.error());
  for (Diagnostic& problem : problems) put_in_file(problem, path);
  return problems;
}

}  // namespace

extern constinit const FrontendDef stablehlo_frontend = {
    .name = "stablehlo",
    .kind = "a StableHLO program",
    .endings = ".mlir, .mlirbc, .stablehlo",
    .recognizes = is_stablehlo,
    .import = import_file,
    .has_functions = true,
    .problems = problems_of_file,
    .survey = survey_file,
};

}  // namespace fettle
