#include "runtime/origins.h"

#include <fmt/format.h>

#include <algorithm>

namespace fettle {

std::vector<KernelOrigin> split_origins(std::string_view lines) {
  std::vector<KernelOrigin> origins;
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    const std::string_view line = lines.substr(0, end);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    const size_t space = std::min(line.find(' '), line.size());
    origins.push_back({std::string(line.substr(0, space)), std::string(line.substr(std::min(space + 1, line.size())))});
  }
  return origins;
}

std::string origins_to_string(std::string_view lines, size_t most) {
  const std::vector<KernelOrigin> origins = split_origins(lines);
  std::string text;
  for (size_t i = 0; i < std::min(most, origins.size()); ++i)
    text += fmt::format("{}{} {}", i ? ", " : "", origins[i].op, origins[i].name);
  if (origins.size() > most) text += fmt::format(" and {} more", origins.size() - most);
  return text;
}

}  // namespace fettle
