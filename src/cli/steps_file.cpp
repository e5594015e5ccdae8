#include "cli/steps_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace fettle::cli {

Result<std::string> read_text(const std::string& path) {
  constexpr uintmax_t kMaxBytes = uintmax_t{64} << 20;
  std::error_code error;
  const uintmax_t bytes = std::filesystem::file_size(path, error);
  if (error) return fail(ErrorCode::E701, error.message(), path);
  if (bytes > kMaxBytes)
    return fail(ErrorCode::E701, fmt::format("it has {} MB; a program or trace has at most 64", bytes >> 20), path);
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) return fail(ErrorCode::E701, "it cannot be read", path);
  return text.str();
}

Diagnostic in_file(Diagnostic diagnostic, const std::string& file) {
  diagnostic.where = diagnostic.where.empty() ? file : file + ", " + diagnostic.where;
  return diagnostic;
}

Result<ParsedTrace> parse_steps(const std::string& text, const std::string& file) {
  const size_t first = text.find_first_not_of(" \n\t");
  auto steps = first != std::string::npos && text[first] == '{' ? trace_from_json(text) : parse_trace(text);
  if (!steps) return fail(in_file(std::move(steps).error(), file));
  return steps;
}

}  // namespace fettle::cli
