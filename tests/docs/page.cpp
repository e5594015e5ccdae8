#include "page.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace fettle::docs {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(std::filesystem::path(FETTLE_SOURCE_DIR) / path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::stringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Where the dump behind a marker begins and ends; false if the marker is not followed by a fenced block.
bool find_dump(const std::string& text, size_t marker, size_t* begin, size_t* end) {
  const size_t fence = text.find('\n', marker);
  if (fence == std::string::npos || text.compare(fence + 1, 3, "```") != 0) return false;
  *begin = text.find('\n', fence + 1) + 1;
  *end = text.compare(*begin, 3, "```") == 0 ? *begin : text.find("\n```\n", *begin) + 1;
  return *begin != 0 && *end != 0;
}

constexpr const char* kMarker = "<!-- dump: ";

}  // namespace

Page read_page(const std::string& path) {
  Page page{path, read_file(path), {}, {}};
  for (size_t at = page.text.find(kMarker); at != std::string::npos; at = page.text.find(kMarker, at + 1)) {
    const size_t name_begin = at + std::strlen(kMarker);
    const std::string name = page.text.substr(name_begin, page.text.find(" -->", name_begin) - name_begin);
    size_t begin = 0, end = 0;
    if (!find_dump(page.text, at, &begin, &end))
      page.problems.push_back("no fenced block after " + name);
    else if (!page.dumps.emplace(name, page.text.substr(begin, end - begin)).second)
      page.problems.push_back(name + " twice");
  }
  return page;
}

void rewrite_dump(Page& page, const std::string& name, const std::string& dump) {
  const size_t marker = page.text.find(kMarker + name + " -->");
  size_t begin = 0, end = 0;
  if (marker == std::string::npos || !find_dump(page.text, marker, &begin, &end)) return;
  page.text.replace(begin, end - begin, dump);
  page.dumps[name] = dump;
  std::ofstream(std::filesystem::path(FETTLE_SOURCE_DIR) / page.path) << page.text;
}

std::string source_region(const std::string& path, const std::string& name) {
  std::vector<std::string> kept;
  bool inside = false;
  for (const std::string& line : lines_of(read_file(path))) {
    if (line.find("// [end]") != std::string::npos) inside = false;
    if (inside) kept.push_back(line);
    if (line.find("// [" + name + "]") != std::string::npos) inside = true;
  }
  size_t indent = std::string::npos;
  for (const std::string& line : kept)
    if (!line.empty()) indent = std::min(indent, line.find_first_not_of(' '));
  std::string text;
  for (const std::string& line : kept) text += (line.empty() ? line : line.substr(indent)) + "\n";
  return text;
}

std::string hot_loop(const std::string& assembly) {
  std::vector<std::string> code;
  for (std::string line : lines_of(assembly)) {
    line = line.substr(0, line.find('#'));
    while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back()))) line.pop_back();
    const size_t first = line.find_first_not_of(" \t");
    if (first == std::string::npos || (line[first] == '.' && line.back() != ':')) continue;
    line.replace(0, first, line.back() == ':' ? "" : "  ");
    std::replace(line.begin(), line.end(), '\t', ' ');
    code.push_back(line);
  }
  std::vector<std::string> best;
  for (size_t begin = 0; begin < code.size(); ++begin) {
    if (code[begin].back() != ':') continue;
    const std::string label = code[begin].substr(0, code[begin].size() - 1);
    for (size_t end = begin + 1; end < code.size(); ++end) {
      if (!code[end].starts_with("  j") || !code[end].ends_with(" " + label)) continue;
      std::vector<std::string> loop(code.begin() + static_cast<long>(begin), code.begin() + static_cast<long>(end) + 1);
      const bool fma =
          std::any_of(loop.begin(), loop.end(), [](const std::string& s) { return s.starts_with("  vfmadd"); });
      if (fma && (best.empty() || loop.size() < best.size())) best = loop;
      break;
    }
  }
  std::string text;
  for (const std::string& line : best) text += line + "\n";
  return text;
}

bool update_wanted() {
  const char* update = std::getenv("FETTLE_UPDATE_GOLDEN");
  return update && std::strcmp(update, "1") == 0;
}

}  // namespace fettle::docs
